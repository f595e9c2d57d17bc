//! A database's seed: bytes for the database's own client, which alone knows in which encoding they are.

mod dump;

use crate::{Program, StackError};
use dump::Reading;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// How a gzip file begins (RFC 1952, 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// Files that no client reads as a dump: how they begin, what they are, and what makes a dump of one.
const OTHERS: [(&[u8], &str, &str); 5] = [
    (
        b"PGDMP",
        "an archive of pg_dump",
        "pg_restore --no-owner -f seed.sql FILE",
    ),
    (b"PK\x03\x04", "a zip archive", "unzip -p FILE > seed.sql"),
    (b"BZh", "packed by bzip2", "bunzip2 -c FILE > seed.sql"),
    (b"\xfd7zXZ", "packed by xz", "xz -dc FILE > seed.sql"),
    (
        b"\x28\xb5\x2f\xfd",
        "packed by zstd",
        "zstd -dc FILE > seed.sql",
    ),
];

/// The role that the application logs in as, and that owns what a seed makes.
pub(crate) const APP_ROLE: &str = "app";

/// What tools of Windows begin a text with.
const BOM: &[u8] = b"\xef\xbb\xbf";

/// The name of a seed's copy in a tier's directory.
pub(crate) const SEED: &str = "seed.sql";

/// Copies a seed into a tier's private directory, for the client of this kind of server: unpacked where it is gzip, whatever it
/// is named, and without what only the machine has that a dump was made on (its databases, owners and users). It may hold any
/// bytes and be of any size. Returns where it lies, for [`crate::TierContext::seed`].
///
/// # Errors
/// It cannot be read or unpacked, is no file that the client reads, or holds several databases; the copy cannot be written.
pub fn unpack_seed(
    from: &Path,
    dir: &Path,
    server: &str,
    program: &Program,
) -> Result<PathBuf, StackError> {
    let unreadable = |error: std::io::Error| StackError::io("read", from, &error);
    let mut packed = BufReader::new(File::open(from).map_err(unreadable)?);
    let head = packed.fill_buf().map_err(unreadable)?;
    let is_gzip = head.starts_with(GZIP);
    if let Some((_, what, how)) = OTHERS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Err(StackError::Unusable {
            file: from.display().to_string(),
            what: format!("it is {what}; make SQL of it: {how}"),
        });
    }
    let mut plain: Box<dyn BufRead> = match is_gzip {
        true => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(packed))),
        false => Box::new(packed),
    };
    std::fs::create_dir_all(dir).map_err(|error| StackError::io("create", dir, &error))?;
    let to = dir.join(SEED);
    let _ = std::fs::remove_file(&to);
    // It may be a copy of what only its owner could read.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let copy = options
        .open(&to)
        .map_err(|error| StackError::io("write", &to, &error))?;
    let mut reading = Reading::of(server, &program.version);
    copy_lines(&mut plain, BufWriter::new(copy), &mut reading).map_err(|error| {
        let what = format!("{error} (the copy goes to {})", to.display());
        StackError::io("copy the seed", from, &what)
    })?;
    match reading.unfit() {
        None => Ok(to),
        Some(what) => Err(StackError::Unusable {
            file: from.display().to_string(),
            what,
        }),
    }
}

fn copy_lines(
    from: &mut dyn BufRead,
    mut to: BufWriter<File>,
    reading: &mut Reading,
) -> std::io::Result<()> {
    let mut line = Vec::new();
    let mut is_first = true;
    while from.read_until(b'\n', &mut line)? > 0 {
        let text = line.strip_prefix(BOM).filter(|_| is_first);
        to.write_all(&reading.line(text.unwrap_or(&line)))?;
        line.clear();
        is_first = false;
    }
    to.flush()
}

/// Statements as a client reads them, a line each.
pub(crate) fn script(statements: &[String]) -> String {
    let ended = |statement: &String| {
        let statement = statement.trim().trim_end_matches(';');
        // A comment at its end must not swallow what ends it.
        format!("{statement}\n;\n")
    };
    statements.iter().map(ended).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_statement_ends_once() {
        let statements = ["SELECT 1".to_owned(), " SELECT 2; ".to_owned()];
        assert_eq!(script(&statements), "SELECT 1\n;\nSELECT 2\n;\n");
    }

    const BYTES: &[u8] = b"INSERT INTO files VALUES (_binary '\xff\x00\x1f');\n";

    fn check(packed: &[u8]) -> Result<Vec<u8>, StackError> {
        let dir = tempfile::tempdir().expect("temp dir");
        let from = dir.path().join("dump");
        std::fs::write(&from, packed).expect("file");
        let to = unpack_seed(
            &from,
            &dir.path().join("tier"),
            "mariadb",
            &Program::default(),
        )?;
        Ok(std::fs::read(to).expect("unpacked"))
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(bytes).expect("in memory");
        packer.finish().expect("in memory")
    }

    #[test]
    fn bytes_that_are_no_text_come_through_unchanged() {
        assert_eq!(check(BYTES).expect("a seed"), BYTES);
        assert_eq!(check(b"").expect("an empty seed"), b"");
    }

    #[test]
    fn gzip_is_unpacked_also_where_several_were_joined() {
        let joined = [gzip(BYTES), gzip(b"-- end\n")].concat();
        assert_eq!(
            check(&joined).expect("a seed"),
            [BYTES, b"-- end\n"].concat()
        );
    }

    #[test]
    fn a_truncated_gzip_is_an_error_that_names_the_file() {
        let packed = gzip(BYTES);
        let error = check(&packed[..packed.len() - 9]).expect_err("cut off");
        assert!(error.to_string().contains("/dump"), "{error}");
    }
    #[test]
    fn what_no_client_reads_is_said_with_what_makes_a_dump_of_it() {
        let error = check(b"PGDMP\x01\x0e\x00")
            .expect_err("an archive")
            .to_string();
        assert!(
            error.contains("/dump` cannot be used: it is an archive of pg_dump"),
            "{error}"
        );
        assert!(error.contains("pg_restore"), "{error}");
        let two = check(b"USE `shop`;\nUSE `blog`;\n")
            .expect_err("two")
            .to_string();
        assert!(two.contains("holds the databases shop, blog"), "{two}");
    }
}
