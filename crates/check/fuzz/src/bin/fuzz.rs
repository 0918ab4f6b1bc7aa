//! One program for all targets.
//!
//! Built by scripts/fuzz.sh it is libFuzzer's, and `CAIRN_FUZZ_TARGET` names the target. Built as usual it takes a target
//! and files, and does with each file what the fuzzer would: `cargo run --release -p cairn-fuzz -- log crash-0123`.
#![cfg_attr(feature = "libfuzzer", no_main)]

#[cfg(feature = "libfuzzer")]
mod fuzzing {
    use std::sync::LazyLock;

    static TARGET: LazyLock<cairn_fuzz::Target> = LazyLock::new(|| {
        let name = std::env::var("CAIRN_FUZZ_TARGET").expect("CAIRN_FUZZ_TARGET names a target");
        cairn_fuzz::target(&name).unwrap_or_else(|| panic!("{name} is no target"))
    });

    libfuzzer_sys::fuzz_target!(|data: &[u8]| {
        (*TARGET)(data);
    });
}

#[cfg(not(feature = "libfuzzer"))]
fn main() -> std::process::ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_default();
    let Some(target) = cairn_fuzz::target(&name) else {
        let names: Vec<&str> = cairn_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
        eprintln!("usage: fuzz TARGET FILE...; targets: {}", names.join(", "));
        return std::process::ExitCode::from(2);
    };
    for path in arguments {
        let data = match std::fs::read(&path) {
            Ok(data) => data,
            Err(error) => {
                eprintln!("read {path}: {error}");
                return std::process::ExitCode::from(2);
            }
        };
        let begin = std::time::Instant::now();
        target(&data);
        println!("{path}: {} bytes, {:.3} s", data.len(), begin.elapsed().as_secs_f64());
    }
    std::process::ExitCode::SUCCESS
}
