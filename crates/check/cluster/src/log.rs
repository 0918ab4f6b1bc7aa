//! What happened in a run, line by line, with the simulated time.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    rc::Rc,
    time::Duration,
};

use cairn_sim::World;

const LOG_LINES: usize = 600;

/// What happened, newest last: printed when a seed fails.
#[derive(Clone)]
pub struct Log {
    lines: Rc<RefCell<VecDeque<String>>>,
    count: Rc<Cell<u64>>,
    clock: Rc<dyn Fn() -> Duration>,
    print: bool,
}

impl Log {
    pub(crate) fn new(world: &World, print: bool) -> Self {
        Self { lines: Rc::default(), count: Rc::default(), clock: Rc::new(world.clock()), print }
    }

    /// Adds a line, with the time.
    pub fn add(&self, line: String) {
        let line = format!("{:>10.4} {line}", (self.clock)().as_secs_f64());
        if self.print {
            eprintln!("{line}");
        }
        self.count.set(self.count.get() + 1);
        let mut lines = self.lines.borrow_mut();
        lines.push_back(line);
        if lines.len() > LOG_LINES {
            lines.pop_front();
        }
    }

    /// Lines so far.
    pub fn count(&self) -> u64 {
        self.count.get()
    }

    /// The newest `n` lines, oldest first.
    pub fn newest(&self, n: usize) -> Vec<String> {
        let lines = self.lines.borrow();
        lines.iter().skip(lines.len().saturating_sub(n)).cloned().collect()
    }

    /// The newest lines.
    pub fn text(&self) -> String {
        self.lines.borrow().iter().cloned().collect::<Vec<_>>().join("\n")
    }
}
