//! `cairn disk export`.
//!
//! Promises    what is exported is a snapshot, so a moment; one that is taken for it is deleted again, whatever comes of it
//!             with --since only what changed is read, and zeroes that it changed to are zeroes of the file
//! Not here    which blocks changed: the NBD server tells qemu-img so as the allocation of an overlay

use std::{
    ffi::OsString,
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use cairn_api::v1::{ChangesBetween, Snapshot, SnapshotCreate};
use cairn_types::format_bytes;
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    door::{self, Door},
    ova,
    partial::Partial,
    pipe,
    stamp::{self, Says},
    tool::{NBDCOPY, QEMU_IMG, Tool, absolute},
};
use crate::{
    args::{Export, ImageFormat},
    commands::Context,
    fail::Fail,
    interrupt, output, progress,
};

/// Cluster of an overlay: a block of a disk, so that one that changed brings no others along. QEMU's default is sixteen.
const OVERLAY_CLUSTER_BYTES: u64 = 4096;
/// Larger disks get QEMU's default: with clusters of 4 KiB an image has at most 8 TiB.
const OVERLAY_SMALL_MAX_BYTES: u64 = 4 << 40;
/// Bytes for each bit of the bitmap that says of which snapshot a file is: it has none set, and so may be small.
const STAMP_GRANULARITY: &str = "1M";
/// The metadata context of NBD that tells changes as an overlay's allocation.
const CHANGED_SINCE: &str = "cairn:changed-since:";

/// What was exported.
#[derive(Debug, Serialize)]
struct Exported {
    snapshot: String,
    file: String,
    format: &'static str,
    size_bytes: u64,
    /// The older snapshot, where only what changed since is in the file.
    since: Option<String>,
    changed_bytes: Option<u64>,
    /// In the file system, holes left out.
    file_bytes: u64,
    compared: bool,
}

/// Where it goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Pipe,
    File(ImageFormat),
}

/// What is needed to carry it out.
struct Work<'a> {
    wanted: &'a Export,
    to: To,
    tool: Tool,
    door: Door,
    /// The disk's name.
    disk: String,
    /// The older snapshot.
    since: Option<Snapshot>,
}

/// Carries it out.
pub async fn run(context: &Context, wanted: Export) -> Result<(), Fail> {
    let to = destination(&wanted)?;
    let tool = Tool::find(if to == To::Pipe { NBDCOPY } else { QEMU_IMG })?;
    let client = &context.client;
    let (disk, named) = match wanted.source.split_once('@') {
        Some((disk, name)) => (disk, Some(name)),
        None => (wanted.source.as_str(), None),
    };
    let disk = client.disk_show(disk).await?.summary.name;
    let snapshots = client.snapshot_list(&disk).await?;
    let find = |name: &str| {
        snapshots.iter().find(|one| one.name == name).cloned().ok_or_else(|| {
            Fail::refused(format!("disk {disk} has no snapshot {name:?}"))
                .remedy(format!("see `cairn snapshot list {disk}`"))
        })
    };
    let since = wanted.since.as_deref().map(&find).transpose()?;
    let snapshot = named.map(&find).transpose()?;
    if let (Some(since), Some(snapshot)) = (&since, &snapshot) {
        let place = |wanted: &Snapshot| snapshots.iter().position(|one| one.id == wanted.id);
        if place(since) >= place(snapshot) {
            return Err(Fail::refused(format!("snapshot {} is not older than {}", since.name, snapshot.name))
                .remedy(format!("see `cairn snapshot list {disk}`")));
        }
    }
    if let (Some(since), Some(backing)) = (&since, &wanted.backing) {
        check_backing(&tool, backing, since, wanted.any_backing).await?;
    }
    let door = door::find(client, wanted.host.as_deref()).await?;
    let work = Work { wanted: &wanted, to, tool, door, disk, since };
    match snapshot {
        Some(snapshot) => interrupt::unless(work.carry_out(context, &snapshot)).await,
        None => work.of_the_moment(context).await,
    }
}

fn destination(wanted: &Export) -> Result<To, Fail> {
    if wanted.file == Path::new("-") {
        return match (wanted.format, &wanted.since) {
            (None | Some(ImageFormat::Raw), None) => Ok(To::Pipe),
            _ => Err(Fail::usage("only the bytes as they are go to standard output").remedy("name a file")),
        };
    }
    let format = wanted.format.or_else(|| ImageFormat::by_ending(&wanted.file)).ok_or_else(|| {
        Fail::usage(format!("the name {} does not tell in which form it is to be", wanted.file.display()))
            .remedy("say it with --format")
    })?;
    match (&wanted.since, format) {
        (Some(_), other) if other != ImageFormat::Qcow2 => {
            Err(Fail::usage(format!("a file over another one is of qcow2, not of {}", other.name()))
                .remedy("name it *.qcow2, or add --format qcow2"))
        }
        _ => Ok(To::File(format)),
    }
}

/// Whether a file has what the older snapshot holds, as far as it says so itself.
async fn check_backing(qemu_img: &Tool, backing: &Path, since: &Snapshot, any: bool) -> Result<(), Fail> {
    let shown = backing.display();
    let path = absolute(backing)?;
    let words = ["info".into(), "--output=json".into(), path];
    let told = qemu_img.done(&format!("read the backing file {shown}"), words, None).await?;
    let info: Value = serde_json::from_str(&told).unwrap_or_default();
    let (disk, name) = (&since.disk, &since.name);
    let why = match stamp::says(&info, since) {
        Says::It => return Ok(()),
        Says::Other(other) => format!("{shown} is of {other}, not of {disk}@{name}"),
        Says::Nothing => format!("{shown} does not say that it is of {disk}@{name}"),
    };
    match any {
        true => Ok(()),
        false => Err(Fail::refused(why).remedy(
            "name the file that `cairn disk export` made of that snapshot; if you know that this one has the same bytes, \
             add --any-backing",
        )),
    }
}

impl Work<'_> {
    /// Of a snapshot that is taken for it.
    async fn of_the_moment(&self, context: &Context) -> Result<(), Fail> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let (client, name) = (&context.client, format!("export-{now}"));
        let full = format!("{}@{name}", self.disk);
        eprintln!("snapshot {full} is taken for it, and deleted afterwards");
        let request = SnapshotCreate { name, disks: vec![self.disk.clone()], locked_for_s: 0 };
        let done = interrupt::unless(async {
            let taken = client.snapshot_create(&request).await?;
            let taken = taken.first().ok_or_else(|| Fail::refused("the cluster took no snapshot"))?;
            self.carry_out(context, taken).await
        });
        let done = done.await;
        let listed = client.snapshot_list(&self.disk).await;
        if done.is_err() && listed.is_ok_and(|all| all.iter().all(|one| one.name != request.name)) {
            // It was refused.
            return done;
        }
        match (done, client.snapshot_delete(&full).await) {
            (done, Ok(())) => {
                eprintln!("snapshot {full} is deleted");
                done
            }
            (Err(fail), Err(_)) => Err(fail.also(format!("snapshot {full} may be there still"))),
            (Ok(()), Err(fail)) => Err(fail.also(format!("the export is done; snapshot {full} is there still"))),
        }
    }

    async fn carry_out(&self, context: &Context, snapshot: &Snapshot) -> Result<(), Fail> {
        let export = format!("{}@{}", snapshot.disk, snapshot.name);
        let To::File(format) = self.to else {
            pipe::out(&self.tool, &self.door, &export, snapshot.size_bytes).await?;
            output::note(context.format, &format!("{export}: {} written", format_bytes(snapshot.size_bytes)));
            return Ok(());
        };
        let changed_bytes = match &self.since {
            Some(since) => Some(changed_bytes(context, since, snapshot).await?),
            None => None,
        };
        let partial = Partial::begin(&self.wanted.file, self.wanted.force)?;
        let done = interrupt::unless(self.fill_file(&partial, format, snapshot, &export)).await;
        let shown = self.wanted.file.display();
        let file_bytes = match done {
            Ok(()) => partial.finish()?,
            Err(fail) => return Err(fail.also(format!("nothing is left of {shown}"))),
        };
        let exported = Exported {
            snapshot: export,
            file: shown.to_string(),
            format: format.name(),
            size_bytes: snapshot.size_bytes,
            since: self.since.as_ref().map(|since| since.name.clone()),
            changed_bytes,
            file_bytes,
            compared: !self.wanted.no_compare,
        };
        output::show(context.format, &exported, show)
    }

    async fn fill_file(
        &self,
        partial: &Partial,
        format: ImageFormat,
        snapshot: &Snapshot,
        export: &str,
    ) -> Result<(), Fail> {
        let source = self.source(export);
        let mut compared = json!({ "driver": format.qemu_name(), "file": of_file(partial.path())? });
        if format == ImageFormat::Ova {
            let disk = self.fill_ova(partial, snapshot, &source).await?;
            let (offset, size, archive) = (disk.offset, disk.len_bytes, compared["file"].take());
            compared["file"] = json!({ "driver": "raw", "offset": offset, "size": size, "file": archive });
        } else {
            self.convert(partial.path(), format, snapshot, &source).await?;
        }
        if format == ImageFormat::Qcow2 {
            let words = ["bitmap", "--add", "--disable", "-g", STAMP_GRANULARITY, "-f", "qcow2"].map(OsString::from);
            let words = words.into_iter().chain([absolute(partial.path())?, stamp::of(snapshot).into()]);
            self.tool.done("write of which snapshot it is", words, None).await?;
        }
        if self.wanted.no_compare {
            return Ok(());
        }
        if self.since.is_some() {
            // Only what the overlay has itself: what is below it was compared when it was made.
            compared["backing"] = Value::Null;
        }
        let images = [source, compared].map(|node| format!("json:{node}"));
        let what = format!("{export} and what was written of it");
        let bar = progress::share_bar("compared");
        let done = self.tool.compare([&images[0], &images[1]], &what, Some(&bar)).await;
        bar.finish_and_clear();
        done
    }

    /// The snapshot for qemu-img; with an older one, as an overlay over that.
    fn source(&self, export: &str) -> Value {
        let mut node = self.door.node(export);
        if let Some(since) = &self.since {
            node["x-dirty-bitmap"] = format!("{CHANGED_SINCE}{}", since.name).into();
        }
        json!({ "driver": "raw", "file": node })
    }

    async fn convert(&self, to: &Path, format: ImageFormat, of: &Snapshot, source: &Value) -> Result<(), Fail> {
        let mut words: Vec<OsString> = ["convert", "-p", "-O", format.qemu_name()].map(OsString::from).into();
        if format == ImageFormat::Ova {
            words.extend(["-o", "subformat=streamOptimized"].map(OsString::from));
        }
        if let Some(backing) = &self.wanted.backing {
            words.extend(["-B".into(), self.backing_name(backing)?, "-F".into(), self.backing_form(backing).await?]);
            if of.size_bytes <= OVERLAY_SMALL_MAX_BYTES {
                words.extend(["-o".into(), format!("cluster_size={OVERLAY_CLUSTER_BYTES}").into()]);
            }
        }
        words.extend([format!("json:{source}").into(), absolute(to)?]);
        let bar = progress::share_bar("exported");
        let act = format!("export {}@{}", of.disk, of.name);
        let done = self.tool.done(&act, words, Some(&bar)).await;
        bar.finish_and_clear();
        done.map(drop)
    }

    /// The backing file as the file names it: without its folder where that is the same, so that both can be moved together.
    fn backing_name(&self, backing: &Path) -> Result<OsString, Fail> {
        let folder = |path: &Path| std::path::absolute(path).ok().and_then(|path| path.parent().map(Path::to_owned));
        match backing.file_name() {
            Some(name) if folder(backing) == folder(&self.wanted.file) => Ok(name.to_owned()),
            _ => absolute(backing),
        }
    }

    async fn backing_form(&self, backing: &Path) -> Result<OsString, Fail> {
        let words = ["info".into(), "--output=json".into(), absolute(backing)?];
        let told = self.tool.done(&format!("read {}", backing.display()), words, None).await?;
        let info: Value = serde_json::from_str(&told).unwrap_or_default();
        let form = info["format"].as_str();
        form.map(OsString::from).ok_or_else(|| Fail::refused(format!("{} has no form", backing.display())))
    }

    async fn fill_ova(&self, partial: &Partial, of: &Snapshot, source: &Value) -> Result<ova::Member, Fail> {
        // The archive tells a disk's length before its bytes: so the disk is a file first.
        let disk = Partial::begin(&self.wanted.file.with_extension("vmdk"), true)?;
        self.convert(disk.path(), ImageFormat::Ova, of, source).await?;
        let bar = progress::share_bar("packed");
        let packed = ova::write(partial.path(), disk.path(), &of.disk, of.size_bytes, &bar).await;
        bar.finish_and_clear();
        packed.map_err(|error| Fail::refused(format!("cannot write {}: {error}", partial.path().display())))?;
        ova::disk_of(partial.path(), None)
    }
}

/// Bytes that may have changed, however many answers that takes.
async fn changed_bytes(context: &Context, since: &Snapshot, snapshot: &Snapshot) -> Result<u64, Fail> {
    let (from, to) = (Some(since.name.clone()), snapshot.name.clone());
    let (mut bytes, mut between) = (0, ChangesBetween { from, to, offset_bytes: 0 });
    loop {
        let told = context.client.disk_changes(&snapshot.disk, &between).await?;
        bytes += told.extents.iter().map(|extent| extent.len_bytes).sum::<u64>();
        match told.next_offset_bytes {
            Some(next) => between.offset_bytes = next,
            None => return Ok(bytes),
        }
    }
}

fn of_file(path: &Path) -> Result<Value, Fail> {
    Ok(json!({ "driver": "file", "filename": absolute(path)?.to_string_lossy() }))
}

fn show(exported: &Exported) -> String {
    let changed = exported.changed_bytes.map(|bytes| {
        let since = exported.since.as_deref().unwrap_or_default();
        format!("{} of {} since {since}", format_bytes(bytes), format_bytes(exported.size_bytes))
    });
    output::pairs([
        ("snapshot", exported.snapshot.clone()),
        ("file", exported.file.clone()),
        ("form", exported.format.to_owned()),
        ("size of the disk", format_bytes(exported.size_bytes)),
        ("changed", changed.unwrap_or_default()),
        ("written", format_bytes(exported.file_bytes)),
        ("compared", if exported.compared { "equal" } else { "no" }.to_owned()),
    ])
}
