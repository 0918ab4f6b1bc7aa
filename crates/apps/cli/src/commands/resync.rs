//! `cairn resync`.

use cairn_api::v1::{Resync, ResyncKind, ResyncSettings};
use cairn_types::format_bytes;

use super::{Context, watch};
use crate::{
    args::Resync as Verb,
    fail::Fail,
    output,
    units::{duration, rate},
};

/// Carries out a verb.
pub async fn run(context: &Context, verb: Verb) -> Result<(), Fail> {
    match verb {
        Verb::List => {
            let resyncs = context.client.resync_list().await?;
            output::show(context.format, &resyncs, |resyncs| list(resyncs))
        }
        Verb::Watch { interval_ms } => watch::resyncs(context, interval_ms).await,
        Verb::Settings { bytes_per_s_max } => {
            let settings = match bytes_per_s_max {
                None => context.client.resync_settings().await?,
                Some(bytes_per_s_max) => {
                    context.client.resync_settings_set(&ResyncSettings { bytes_per_s_max }).await?
                }
            };
            output::show(context.format, &settings, |settings| {
                let limit = match settings.bytes_per_s_max {
                    0 => "none: resync yields to guest I/O".into(),
                    bytes => rate(bytes),
                };
                output::pairs([("limit per host", limit)])
            })
        }
    }
}

fn list(resyncs: &[Resync]) -> String {
    let head = ["disk", "component", "to host", "kind", "total", "left", "rate", "time left"];
    output::table(&head, resyncs.iter().map(row))
}

fn row(resync: &Resync) -> Vec<String> {
    vec![
        resync.disk_name.clone(),
        resync.component.to_string()[..8].to_owned(),
        resync.host_name.clone(),
        match resync.kind {
            ResyncKind::Delta => "delta".into(),
            ResyncKind::Full => "full".into(),
        },
        format_bytes(resync.bytes_total),
        format_bytes(resync.bytes_left),
        rate(resync.bytes_per_s),
        resync.eta_s.map_or("-".into(), duration),
    ]
}
