//! `cairn disk clone` and `cairn disk flatten`.

use std::time::Instant;

use cairn_api::v1::{Disk, DiskClone};
use futures::stream::{self, StreamExt as _};

use super::Context;
use crate::{fail::Fail, output, progress};

/// Clones that are made at once. Each waits for the directory twice and for hosts in between.
const AT_ONCE: usize = 4;

/// Makes so many clones.
pub(super) async fn several(context: &Context, snapshot: &str, request: DiskClone, count: u32) -> Result<(), Fail> {
    let client = &context.client;
    let began = Instant::now();
    let width = count.to_string().len();
    let names = (1..=count).map(|n| format!("{}-{n:0width$}", request.name));
    let one = |name: String| {
        let request = DiskClone { name, ..request.clone() };
        async move { client.disk_clone(snapshot.to_owned(), &request).await }
    };
    let mut made: Vec<Disk> = Vec::new();
    let mut clones = stream::iter(names).map(one).buffered(AT_ONCE);
    while let Some(disk) = clones.next().await {
        made.push(disk.map_err(|error| error.also(format!("{} of {count} clones are made", made.len())))?);
    }
    output::show(context.format, &made, |made| {
        let names = made
            .first()
            .zip(made.last())
            .map_or(String::new(), |(first, last)| format!("{} to {}", first.summary.name, last.summary.name));
        let s = began.elapsed().as_secs_f64();
        let each_ms = s * 1000.0 / made.len() as f64;
        format!("{} clones of {snapshot} made in {s:.1} s, {each_ms:.0} ms each: {names}", made.len())
    })
}

/// Begins to flatten a clone.
pub(super) async fn flatten(context: &Context, disk: &str, wait: bool) -> Result<Disk, Fail> {
    let client = &context.client;
    let begun = client.disk_flatten(disk.to_owned()).await?;
    if !wait {
        return Ok(begun);
    }
    let name = begun.summary.name;
    let look = async || {
        let waits = client.disk_show(name.clone()).await?.clone_of.is_some();
        let parts = client.resync_list().await?.into_iter().filter(|one| one.disk_name == name);
        Ok((waits, parts.map(|one| one.bytes_left).sum::<u64>()))
    };
    let now = look().await?;
    progress::while_moving(now, |now| now.1, |now| now.0, look).await?;
    client.disk_show(name.clone()).await
}
