//! Every seed of every fuzz target holds, with the stable compiler and without a fuzzer.

#[path = "../../../../fuzz/targets.rs"]
mod targets;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz")
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).expect("a directory of fuzz/");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    entries
        .map(|entry| {
            name(entry)
                .to_string_lossy()
                .trim_end_matches(".rs")
                .to_owned()
        })
        .collect()
}

#[test]
fn every_target_has_seeds_and_a_program_of_the_fuzzer() {
    let known: BTreeSet<String> = targets::TARGETS
        .iter()
        .map(|(name, _)| (*name).to_owned())
        .collect();
    assert_eq!(names(&fuzz().join("corpus")), known);
    assert_eq!(names(&fuzz().join("fuzz_targets")), known);
    let manifest = fs::read_to_string(fuzz().join("Cargo.toml")).expect("its Cargo.toml");
    for name in &known {
        assert!(
            manifest.contains(&format!("\nname = \"{name}\"\n")),
            "{name}"
        );
        let program = fuzz().join(format!("fuzz_targets/{name}.rs"));
        let program = fs::read_to_string(program).expect("a target");
        assert!(
            program.contains(&format!("targets::run(\"{name}\", input)")),
            "{name}"
        );
    }
}

#[test]
fn every_seed_holds_also_cut_short_and_with_a_byte_that_is_another() {
    for (target, _) in targets::TARGETS {
        let seeds = fs::read_dir(fuzz().join("corpus").join(target)).expect("seeds");
        for seed in seeds {
            let path = seed.expect("an entry").path();
            let bytes = fs::read(&path).expect("a seed");
            targets::run(target, &bytes);
            // Some neighbours of it: the test is quick and finds what is shallow.
            let step = bytes.len().div_ceil(24).max(1);
            for at in (0..bytes.len()).step_by(step) {
                targets::run(target, &bytes[..at]);
                let mut other = bytes.clone();
                other[at] ^= 0x85;
                targets::run(target, &other);
            }
        }
    }
}
