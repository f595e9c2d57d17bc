//! A database's seed: bytes for the database's own client, which alone knows in which encoding they are.

use crate::StackError;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// How a gzip file begins (RFC 1952, 2.3.1).
const GZIP: &[u8] = &[0x1f, 0x8b];

/// The name of a seed's copy in a tier's directory.
pub(crate) const SEED: &str = "seed.sql";

/// Copies a seed into a tier's private directory and unpacks it where it is gzip, whatever it is named. It may hold any
/// bytes and be of any size. Returns where it lies, for [`crate::TierContext::seed`].
///
/// # Errors
/// It cannot be read or unpacked, or the copy cannot be written.
pub fn unpack_seed(from: &Path, dir: &Path) -> Result<PathBuf, StackError> {
    let unreadable = |error: std::io::Error| StackError::io("read", from, &error);
    let mut packed = BufReader::new(File::open(from).map_err(unreadable)?);
    let is_gzip = packed.fill_buf().map_err(unreadable)?.starts_with(GZIP);
    let mut plain: Box<dyn Read> = match is_gzip {
        true => Box::new(flate2::bufread::MultiGzDecoder::new(packed)),
        false => Box::new(packed),
    };
    std::fs::create_dir_all(dir).map_err(|error| StackError::io("create", dir, &error))?;
    let to = dir.join(SEED);
    let _ = std::fs::remove_file(&to);
    // It may be a copy of what only its owner could read.
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut copy = options
        .open(&to)
        .map_err(|error| StackError::io("write", &to, &error))?;
    std::io::copy(&mut plain, &mut copy).map_err(|error| {
        let what = format!("{error} (the copy goes to {})", to.display());
        StackError::io("copy the seed", from, &what)
    })?;
    Ok(to)
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
    use std::io::Write;

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
        let to = unpack_seed(&from, &dir.path().join("tier"))?;
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
}
