//! Store for ClickHouse: one insert per batch over HTTP, in the `RowBinary` format.
//!
//! Uses only features that both release 18.16 (Debian) and current releases support.

mod columns;
mod http;
mod report;
pub mod schema;

use crate::buffer::Batch;
use crate::store::{Store, StoreError};
pub use http::Server;
pub use report::LinkQueries;

/// Error codes of a missing table or database.
const UNKNOWN: [u32; 2] = [60, 81];

/// A database of a ClickHouse server.
#[derive(Clone, Debug)]
pub struct ClickHouse {
    /// The server.
    pub server: Server,
    /// Name of the database; consists of letters, digits and `_`.
    pub database: String,
    /// Name of this instance, stored in every row.
    pub instance: String,
    /// Time at which this process began to record, in milliseconds since 1970. It distinguishes the
    /// two rows of a minute in which an instance was restarted.
    pub run: u64,
}

impl ClickHouse {
    /// Creates the database, tables and views, or upgrades them. Returns the previous version of
    /// the schema, or 0 if there was no schema.
    ///
    /// # Errors
    /// The server refuses a statement or does not reply within a minute, or the schema is newer than this
    /// program.
    pub async fn init(&self) -> Result<u32, StoreError> {
        let before = self.version().await?;
        if before > schema::VERSION {
            return Err(StoreError::Unavailable(too_new(before)));
        }
        for statement in schema::statements(&self.database, before) {
            self.server.execute(&statement).await?;
        }
        Ok(before)
    }

    /// Runs a query, and returns the response as text.
    ///
    /// # Errors
    /// The server refuses the query or does not reply within a minute.
    pub async fn query(&self, sql: &str) -> Result<String, StoreError> {
        let bytes = self.server.execute(sql).await?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Returns the version of the schema, or 0 without a schema.
    async fn version(&self) -> Result<u32, StoreError> {
        let sql = format!("SELECT max(version) FROM {}.schema_version FORMAT TabSeparated", self.database);
        match self.query(&sql).await {
            Ok(text) => {
                let version = text.trim().parse();
                version.map_err(|_| StoreError::Unavailable(format!("unexpected reply {:?}", text.trim())))
            }
            Err(error) if code_of(&error.to_string()).is_some_and(|code| UNKNOWN.contains(&code)) => Ok(0),
            Err(error) => Err(error),
        }
    }
}

impl Store for ClickHouse {
    async fn check(&self) -> Result<(), StoreError> {
        let database = &self.database;
        // A refusal of this query is not caused by a row, so all rows are kept.
        let version = self.version().await.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        match version {
            schema::VERSION => Ok(()),
            0 => Err(StoreError::Unavailable(format!(
                "database {database} has no schema: run `doorbell history init`"
            ))),
            older if older < schema::VERSION => Err(StoreError::Unavailable(format!(
                "the schema of database {database} has version {older}, this program writes version {}: run `doorbell history init`",
                schema::VERSION
            ))),
            newer => Err(StoreError::Unavailable(too_new(newer))),
        }
    }

    async fn insert(&self, batch: &Batch) -> Result<(), StoreError> {
        let (table, columns) = columns::of(batch.kind());
        let sql = format!("INSERT INTO {}.{table} ({columns}) FORMAT RowBinary", self.database);
        self.server.insert(&sql, columns::encode(batch, &self.instance, self.run)).await
    }
}

fn too_new(version: u32) -> String {
    format!(
        "the schema has version {version}, this program supports versions up to {}: use a newer doorbell",
        schema::VERSION
    )
}

/// Extracts the error code of a server message, such as `Code: 60, e.displayText() = ..`.
fn code_of(text: &str) -> Option<u32> {
    let (_, rest) = text.split_once("Code: ")?;
    rest.split(|byte: char| !byte.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_old_and_new_servers() {
        for (text, code) in [
            ("Code: 60, e.displayText() = DB::Exception: Table a.b doesn't exist.", Some(60)),
            ("HTTP 404: Code: 81. DB::Exception: Database a does not exist. (UNKNOWN_DATABASE)", Some(81)),
            ("connection refused", None),
        ] {
            assert_eq!(code_of(text), code, "{text}");
        }
    }
}
