//! The demo's time line: what it says itself, and the engine's events in words as they happen.

use std::{
    fmt::Write as _,
    sync::{Arc, Mutex},
    time::Instant,
};

use tracing::{
    Level, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{Layer, layer::Context, prelude::*, registry};

/// Prints lines with the time since the demo began.
#[derive(Debug, Clone)]
pub struct Clock(Instant);

impl Clock {
    /// Says one thing.
    pub fn say(&self, words: impl AsRef<str>) {
        println!("{:7.2} s  {}", self.0.elapsed().as_secs_f64(), words.as_ref());
    }
}

/// One event of the engine.
#[derive(Debug, Clone, Default)]
pub struct Event {
    words: String,
    host: String,
    disk: String,
    /// Bytes that a resync copied.
    pub bytes: Option<String>,
}

/// What was heard.
#[derive(Debug, Clone, Default)]
pub struct Events(Arc<Mutex<Vec<Event>>>);

impl Events {
    /// All so far.
    pub fn all(&self) -> Vec<Event> {
        self.0.lock().expect("no listener panics").clone()
    }
}

/// Begins the time line, and prints every event that concerns a disk.
pub fn listen() -> (Clock, Events) {
    let (clock, events) = (Clock(Instant::now()), Events::default());
    let _ = registry().with(Ear(clock.clone(), events.clone())).try_init();
    (clock, events)
}

struct Ear(Clock, Events);

impl<S: Subscriber> Layer<S> for Ear {
    fn on_event(&self, event: &tracing::Event<'_>, _: Context<'_, S>) {
        if *event.metadata().level() > Level::INFO {
            return;
        }
        let mut heard = Event::default();
        event.record(&mut heard);
        let grave = *event.metadata().level() == Level::ERROR;
        if heard.disk.is_empty() && !grave {
            return;
        }
        let bytes = heard.bytes.as_ref().map(|bytes| format!(", {bytes} copied")).unwrap_or_default();
        self.0.say(format!("  {}: {}: {}{bytes}", heard.host, heard.disk, heard.words));
        self.1.0.lock().expect("no listener panics").push(heard);
    }
}

impl Visit for Event {
    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "host" => self.host = value.to_owned(),
            "disk" => self.disk = value.to_owned(),
            "bytes" => self.bytes = Some(value.to_owned()),
            _ => {}
        }
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        if field.name() == "message" {
            let _ = write!(self.words, "{value:?}");
        } else {
            let text = format!("{value:?}");
            self.record_str(field, text.trim_matches('"'));
        }
    }
}
