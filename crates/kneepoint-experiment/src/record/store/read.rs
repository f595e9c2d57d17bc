//! Reads a run file, which may come from anybody, and may lie where nothing can be written.

use super::cut_short::CutShort;
use super::{Record, failure};
use crate::error::ExperimentError;
use kneepoint_model::Run;
use kneepoint_model::run::{RUN_VERSION, Trial, TrialId};
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::{Connection, OpenFlags};
use std::path::{Path, PathBuf};

/// Most records of a run: a day of steps, journal lines and findings has a few thousand.
const MOST_RECORDS: i64 = 1_000_000;
/// Longest record in bytes; stacks of PHP are the longest, with some MB.
const LONGEST_RECORD: i32 = 256 << 20;

/// Reads a run back.
///
/// # Errors
/// Not a run file, of a version that this program does not know, or larger than any run.
pub(super) fn run(path: &Path) -> Result<Run, ExperimentError> {
    fold(path)
        .map_err(|error| match error.sqlite_error_code() {
            Some(rusqlite::ErrorCode::NotADatabase) => ExperimentError::Store {
                path: path.display().to_string(),
                what: "is not a run file of Kneepoint (those end with .kneepoint.sqlite)"
                    .to_owned(),
            },
            _ => failure(path, &error, "is not a run file that can be read"),
        })?
        .map_err(|what| ExperimentError::Store {
            path: path.display().to_string(),
            what,
        })
}

fn fold(path: &Path) -> rusqlite::Result<Result<Run, String>> {
    let connection = open(path)?;
    let version: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if version == 0 || version > RUN_VERSION {
        return Ok(Err(format!(
            "is of version {version}, this program reads 1 to {RUN_VERSION}: use the Kneepoint that wrote it"
        )));
    }
    // A view of that name could go on for ever, or compute whatever its maker liked.
    let kind = "select count(*) from sqlite_schema where type = 'table' and name = 'record' \
                and sql not like '%virtual%'";
    let tables: u32 = connection.query_row(kind, (), |row| row.get(0))?;
    if tables != 1 {
        return Ok(Err("has no table of records".to_owned()));
    }
    let mut run = Run::default();
    let mut in_flight = CutShort::default();
    let mut statement = connection.prepare("select at_s, json from record order by id limit ?1")?;
    let mut rows = statement.query((MOST_RECORDS + 1,))?;
    let mut count = 0;
    while let Some(row) = rows.next()? {
        count += 1;
        if count > MOST_RECORDS {
            return Ok(Err(format!("holds more than {MOST_RECORDS} records")));
        }
        let (at_s, json): (f64, String) = (row.get(0)?, row.get(1)?);
        match serde_json::from_str::<Record>(&json) {
            Ok(Record::Second(second)) => in_flight.second(*second),
            Ok(record) => {
                if matches!(record, Record::Trial(_) | Record::End(_)) {
                    in_flight = CutShort::default();
                }
                record.apply(&mut run);
            }
            Err(error) => {
                return Ok(Err(format!(
                    "holds a record this program cannot read: {error}"
                )));
            }
        }
        run.elapsed_s = at_s;
    }
    if let Some((arm, load)) = in_flight.point() {
        run.trials.push(Trial {
            id: TrialId(run.trials.len() as u64),
            purpose: "cut short".to_owned(),
            arm,
            at_s: (run.elapsed_s - load.window_s).max(0.0),
            load,
            cpu: None,
        });
    }
    run.upgrade();
    Ok(Ok(run))
}

/// Opens a file that is not trusted, for reading.
fn open(path: &Path) -> rusqlite::Result<Connection> {
    let connection = match has_log(path) {
        // A run that goes on, or whose program was killed: its last records are in the log beside the file.
        true => Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE)
            .or_else(|_| Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY))?,
        // Nobody writes to it, and nothing is written beside it: it may lie where nothing can be.
        false => {
            let uri = format!("file:{}?immutable=1", escaped(path));
            let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri, flags)?
        }
    };
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_VIEW, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, LONGEST_RECORD)?;
    connection.pragma_update(None, "cell_size_check", true)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    Ok(connection)
}

/// Whether a log lies beside the file that holds anything.
fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(PathBuf::from(log)).is_ok_and(|log| log.len() > 0)
}

/// A path as a URI has it.
fn escaped(path: &Path) -> String {
    use std::fmt::Write as _;
    use std::os::unix::ffi::OsStrExt as _;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => {
                text.push(char::from(*byte))
            }
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}
