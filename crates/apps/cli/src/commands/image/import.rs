//! `cairn disk import`.
//!
//! Promises    a new disk has what the image holds, holes as holes, or is deleted again
//! Not here    formats (qemu-img's)

use std::{ffi::OsString, fs, os::unix::fs::FileTypeExt as _, path::Path};

use cairn_api::v1::{DiskCreate, DiskDelete};
use cairn_types::{SECTOR_BYTES, format_bytes};
use serde::Serialize;
use serde_json::{Value, json};

use super::{
    door::{self, Door},
    form, ova, pipe,
    tool::{QEMU_IMG, Tool, absolute},
};
use crate::{
    args::{ImageFormat, Import},
    commands::Context,
    fail::Fail,
    interrupt, output, progress,
};

/// What was imported.
#[derive(Debug, Serialize)]
struct Imported {
    disk: String,
    file: String,
    format: String,
    /// Files below it that were read with it, the nearest first.
    backing: Vec<String>,
    /// Of the image.
    image_bytes: u64,
    /// Of the disk.
    size_bytes: u64,
    allocated_bytes: Option<u64>,
    compared: bool,
}

/// An image that can be read.
struct Image {
    /// For qemu-img; none: standard input.
    node: Option<Value>,
    format: String,
    backing: Vec<String>,
    bytes: Option<u64>,
}

/// Carries it out.
pub async fn run(context: &Context, wanted: Import) -> Result<(), Fail> {
    let from_pipe = wanted.file == Path::new("-");
    let tool = Tool::find(QEMU_IMG)?;
    let image = match from_pipe {
        true => standard_input(&wanted)?,
        false => look(&tool, &wanted).await?,
    };
    let name = name(&wanted)?;
    let size_bytes = size(&wanted, image.bytes)?;
    let door = door::find(&context.client, wanted.host.as_deref()).await?;
    for below in &image.backing {
        output::note(context.format, &format!("{} is read over {below}", wanted.file.display()));
    }
    let limits = wanted.limits.into();
    let request = DiskCreate { name: name.clone(), size_bytes, policy: wanted.policy, host: wanted.host, limits };
    context.client.disk_create(&request).await?;
    let filled = interrupt::unless(fill(&tool, &door, &image, &name, size_bytes, !wanted.no_compare)).await;
    let image_bytes = match filled {
        Ok(bytes) => bytes,
        Err(fail) => {
            // Whoever had it open is gone, or about to be.
            let deleted = context.client.disk_delete(&name, &DiskDelete { force: true }).await;
            let left = if deleted.is_ok() { "is deleted again" } else { "is there, and not whole: delete it" };
            return Err(fail.also(format!("disk {name} {left}")));
        }
    };
    let imported = Imported {
        file: wanted.file.display().to_string(),
        format: image.format,
        backing: image.backing,
        image_bytes,
        size_bytes,
        allocated_bytes: context.client.disk_show(&name).await?.allocated_bytes,
        disk: name,
        compared: !wanted.no_compare,
    };
    output::show(context.format, &imported, show)
}

/// Copies and compares. Tells the bytes of the image.
async fn fill(
    tool: &Tool,
    door: &Door,
    image: &Image,
    disk: &str,
    size_bytes: u64,
    compare: bool,
) -> Result<u64, Fail> {
    let Some(node) = &image.node else {
        return pipe::into(tool, door, disk, size_bytes, compare).await;
    };
    let source = format!("json:{node}");
    let bar = progress::share_bar("imported");
    // The disk is new, so it reads as zeroes; and no place of it is better written before another.
    let words = ["convert", "-p", "-n", "-W", "-m", "16", "--target-is-zero", "--target-image-opts"];
    let words = words.into_iter().map(str::to_owned).chain([source.clone(), door.options(disk)]);
    let done = tool.done(&format!("import into disk {disk}"), words, Some(&bar)).await;
    bar.finish_and_clear();
    done?;
    if compare {
        let written = format!("json:{}", json!({ "driver": "raw", "file": door.node(disk) }));
        let bar = progress::share_bar("compared");
        let done = tool.compare([&source, &written], &format!("the image and disk {disk}"), Some(&bar)).await;
        bar.finish_and_clear();
        done?;
    }
    Ok(image.bytes.unwrap_or(size_bytes))
}

fn standard_input(wanted: &Import) -> Result<Image, Fail> {
    if wanted.format.as_deref().is_some_and(|format| format != ImageFormat::Raw.name()) || wanted.member.is_some() {
        return Err(Fail::usage("only the bytes as they are come from standard input").remedy("name a file"));
    }
    if wanted.name.is_none() || wanted.size.is_none() {
        return Err(Fail::usage("standard input tells neither a name nor a size").remedy("add --name and --size"));
    }
    Ok(Image { node: None, format: ImageFormat::Raw.name().to_owned(), backing: Vec::new(), bytes: None })
}

/// The disk's name: told, or the file's.
fn name(wanted: &Import) -> Result<String, Fail> {
    let stem = || wanted.file.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
    wanted
        .name
        .clone()
        .or_else(stem)
        .ok_or_else(|| Fail::usage(format!("{} gives no name to a disk", wanted.file.display())).remedy("add --name"))
}

/// The disk's size: told, or the image's, in whole sectors.
fn size(wanted: &Import, image: Option<u64>) -> Result<u64, Fail> {
    let least = image.unwrap_or(0).next_multiple_of(u64::from(SECTOR_BYTES));
    match wanted.size {
        Some(size) if size < least => {
            Err(Fail::refused(format!("the image has {}, more than {}", format_bytes(least), format_bytes(size)))
                .remedy("leave --size out, or give a larger one"))
        }
        Some(size) => Ok(size),
        None => Ok(least),
    }
}

/// Finds out what a file is.
async fn look(qemu_img: &Tool, wanted: &Import) -> Result<Image, Fail> {
    let (file, shown) = (&wanted.file, wanted.file.display());
    let found = fs::metadata(file).map_err(|error| Fail::refused(format!("cannot read {shown}: {error}")))?;
    let driver = match found.file_type() {
        kind if kind.is_file() => "file",
        kind if kind.is_block_device() => "host_device",
        _ => return Err(Fail::refused(format!("{shown} is neither a file nor a block device"))),
    };
    let mut below = json!({ "driver": driver, "filename": absolute(file)?.to_string_lossy() });
    let told = wanted.format.as_deref();
    let is_ova = told.map_or(ImageFormat::by_ending(file) == Some(ImageFormat::Ova), |told| told == "ova");
    if !is_ova && wanted.member.is_some() {
        return Err(Fail::usage(format!("{shown} is no OVA: it has no members")));
    }
    let mut named = file.clone();
    if is_ova {
        let member = ova::disk_of(file, wanted.member.as_deref())?;
        below = json!({ "driver": "raw", "offset": member.offset, "size": member.len_bytes, "file": below });
        named = member.name.into();
    }
    let told = told.filter(|_| !is_ova);
    let mut node = json!({ "file": below });
    if let Some(told) = told {
        node["driver"] = told.into();
    }
    let words = ["info", "--output=json", "--backing-chain", &format!("json:{node}")].map(OsString::from);
    let info = qemu_img.done(&format!("read {shown}"), words, None).await?;
    let chain: Value = serde_json::from_str(&info).unwrap_or_default();
    let top = &chain[0];
    let (Some(format), Some(bytes)) = (top["format"].as_str(), top["virtual-size"].as_u64()) else {
        return Err(Fail::refused(format!("qemu-img tells neither form nor size of {shown}: {info}")));
    };
    if told.is_none() {
        form::check_found(&named, format)?;
    }
    node["driver"] = format.into();
    let images = chain.as_array().map(Vec::as_slice).unwrap_or_default();
    let backing = images.iter().skip(1).filter_map(|image| image["filename"].as_str().map(str::to_owned)).collect();
    Ok(Image { node: Some(node), format: format.to_owned(), backing, bytes: Some(bytes) })
}

fn show(imported: &Imported) -> String {
    output::pairs([
        ("disk", imported.disk.clone()),
        ("file", imported.file.clone()),
        ("form", imported.format.clone()),
        ("over", imported.backing.join("\n")),
        ("read", format_bytes(imported.image_bytes)),
        ("size of the disk", format_bytes(imported.size_bytes)),
        ("allocated", imported.allocated_bytes.map_or(String::new(), format_bytes)),
        ("compared", if imported.compared { "equal" } else { "no" }.to_owned()),
    ])
}
