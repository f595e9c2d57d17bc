//! Writes the sample runs in every format, to look at: `cargo run -p kneepoint-report --example render_sample -- DIR`.

#![expect(
    clippy::disallowed_methods,
    reason = "the example writes what the crate only makes"
)]

#[path = "../tests/support/mod.rs"]
mod support;

use kneepoint_report::{FORMATS, LoadFormat, Options, Styles, render, render_load};
use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err(std::io::Error::other(
            "give the directory to write the samples to",
        ));
    };
    std::fs::create_dir_all(&directory)?;
    for (name, run) in support::all() {
        for format in FORMATS {
            let path = directory.join(format!("{name}.{}", format.extension));
            std::fs::write(path, render(&run, format, &Options::default()))?;
        }
    }
    for (name, run) in support::loads::all() {
        for (format, extension) in [(LoadFormat::Html, "html"), (LoadFormat::Text, "txt")] {
            let path = directory.join(format!("{name}.{extension}"));
            std::fs::write(path, render_load(&run, format, Styles::Plain))?;
        }
    }
    Ok(())
}
