//! The schema: databases, tables and views, by version.
//!
//! Times are a `DateTime` in UTC and a number of milliseconds, because release 18.16 has no
//! `DateTime64`. Tables are partitioned by month: old months are removed with
//! `ALTER TABLE .. DROP PARTITION`, because that release has no TTL.

/// Version of the schema that this program writes.
pub const VERSION: u32 = 3;

/// Idempotent statements of each version. `{db}` is the database.
const STEPS: [&[&str]; VERSION as usize] = [
    &[
        "CREATE TABLE IF NOT EXISTS {db}.transitions (time DateTime('UTC'), millis UInt16, instance String, subject String, name String, \
     from_state String, to_state String, cause String, reason String) \
     ENGINE = MergeTree() PARTITION BY toYYYYMM(time) ORDER BY (subject, name, instance, time)",
        "CREATE TABLE IF NOT EXISTS {db}.operations (time DateTime('UTC'), millis UInt16, instance String, what String, target String, \
     is_on UInt8, source String, reason String, until DateTime('UTC')) \
     ENGINE = MergeTree() PARTITION BY toYYYYMM(time) ORDER BY (what, target, instance, time)",
        "CREATE TABLE IF NOT EXISTS {db}.results (time DateTime('UTC'), millis UInt16, instance String, name String, outcome String, \
     latency_us UInt32, weight UInt32, reason String) \
     ENGINE = MergeTree() PARTITION BY toYYYYMM(time) ORDER BY (name, instance, time)",
        "CREATE TABLE IF NOT EXISTS {db}.minutes (minute DateTime('UTC'), instance String, run UInt64, endpoint String, up_ms UInt32, \
     degraded_ms UInt32, down_ms UInt32, drain_ms UInt32, maintenance_ms UInt32) \
     ENGINE = ReplacingMergeTree() PARTITION BY toYYYYMM(minute) ORDER BY (endpoint, instance, minute, run)",
    ],
    &[
        "CREATE TABLE IF NOT EXISTS {db}.link_minutes (minute DateTime('UTC'), instance String, run UInt64, link String, sent UInt32, lost UInt32, \
     dropped UInt32) \
     ENGINE = MergeTree() PARTITION BY toYYYYMM(minute) ORDER BY (link, instance, minute, run)",
        "CREATE TABLE IF NOT EXISTS {db}.prober_minutes (minute DateTime('UTC'), instance String, run UInt64, endpoint String, prober String, \
     up UInt32, degraded UInt32, down UInt32, drain UInt32, maintenance UInt32) \
     ENGINE = MergeTree() PARTITION BY toYYYYMM(minute) ORDER BY (endpoint, prober, instance, minute, run)",
    ],
    // Replaces `receipts` of version 2, whose rows do not identify the frame. A new table, because
    // release 18.16 has no `ADD COLUMN IF NOT EXISTS`.
    &[
        "CREATE TABLE IF NOT EXISTS {db}.link_receipts (time DateTime('UTC'), millis UInt16, instance String, link String, \
     incarnation UInt64, connection UInt64, number UInt64, size UInt32, \
     round_trip_us UInt32, one_way_min_us UInt32, one_way_max_us UInt32, weight UInt32) \
     ENGINE = MergeTree() PARTITION BY toYYYYMM(time) ORDER BY (link, instance, time)",
    ],
];

/// Views of the current version, which each upgrade recreates.
const VIEWS: [(&str, &str); 5] = [
    (
        "availability",
        "SELECT month, endpoint, count() AS instances, sum(up) / 1000 AS up_s, sum(degraded) / 1000 AS degraded_s, \
         sum(down) / 1000 AS down_s, sum(planned) / 1000 AS planned_s, \
         (sum(up) + sum(degraded)) / (sum(up) + sum(degraded) + sum(down)) AS availability \
         FROM (SELECT month, endpoint, instance, sum(up_ms) AS up, sum(degraded_ms) AS degraded, sum(down_ms) AS down, \
         sum(drain_ms + maintenance_ms) AS planned \
         FROM (SELECT DISTINCT toStartOfMonth(minute) AS month, * FROM {db}.minutes) GROUP BY month, endpoint, instance) \
         GROUP BY month, endpoint ORDER BY month, endpoint",
    ),
    (
        "flapping",
        "SELECT toDate(time) AS day, name, instance, count() AS changes, sum(to_state = 'down') AS downs \
         FROM (SELECT DISTINCT * FROM {db}.transitions WHERE subject = 'check') \
         WHERE to_state IN ('up', 'degraded', 'down', 'flapping') \
         GROUP BY day, name, instance HAVING changes >= 4 ORDER BY day DESC, changes DESC",
    ),
    (
        "link_loss",
        "SELECT toDate(minute) AS day, link, instance, sum(sent) AS frames, sum(lost) AS frames_lost, sum(dropped) AS frames_dropped, \
         if(frames = 0, 0, frames_lost / frames) AS loss \
         FROM (SELECT DISTINCT * FROM {db}.link_minutes) GROUP BY day, link, instance ORDER BY day DESC, loss DESC",
    ),
    (
        "disagreeing",
        "SELECT minute, instance, endpoint, prober, healthy, probes, (all_healthy - healthy) AS others_healthy, \
         (all_probes - probes) AS others_probes \
         FROM (SELECT minute, instance, endpoint, prober, sum(up + degraded) AS healthy, \
         sum(up + degraded + down + drain + maintenance) AS probes \
         FROM (SELECT DISTINCT * FROM {db}.prober_minutes) GROUP BY minute, instance, endpoint, prober) AS one \
         ALL INNER JOIN (SELECT minute, instance, endpoint, sum(up + degraded) AS all_healthy, \
         sum(up + degraded + down + drain + maintenance) AS all_probes \
         FROM (SELECT DISTINCT * FROM {db}.prober_minutes) GROUP BY minute, instance, endpoint) AS whole USING (minute, instance, endpoint) \
         WHERE others_probes > 0 AND abs(healthy / probes - others_healthy / others_probes) >= 0.5 \
         ORDER BY minute DESC, endpoint, prober",
    ),
    (
        "slowest",
        "SELECT toDate(time) AS day, name, sum(weight) AS results, \
         sum(if(outcome IN ('success', 'degraded', 'maintenance'), 0, weight)) AS failures, \
         quantileExactWeighted(0.5)(latency_us, weight) / 1000 AS p50_ms, \
         quantileExactWeighted(0.99)(latency_us, weight) / 1000 AS p99_ms, max(latency_us) / 1000 AS max_ms \
         FROM (SELECT DISTINCT * FROM {db}.results) GROUP BY day, name ORDER BY day DESC, p99_ms DESC",
    ),
];

/// Returns the statements that upgrade a schema from version `before`; 0 creates it. If `before` is
/// the current version, the statements of that version are repeated, which changes no table.
#[must_use]
pub fn statements(database: &str, before: u32) -> Vec<String> {
    let done = (before as usize).min(STEPS.len() - 1);
    let mut all = vec![
        "CREATE DATABASE IF NOT EXISTS {db}".to_owned(),
        "CREATE TABLE IF NOT EXISTS {db}.schema_version (version UInt32, time DateTime('UTC')) ENGINE = MergeTree() ORDER BY version"
            .to_owned(),
    ];
    all.extend(STEPS[done..].iter().flat_map(|step| step.iter().map(|sql| (*sql).to_owned())));
    for (name, select) in VIEWS {
        all.push(format!("DROP TABLE IF EXISTS {{db}}.{name}"));
        all.push(format!("CREATE VIEW {{db}}.{name} AS {select}"));
    }
    // Inserted last, because programs write rows as soon as the version exists.
    if before < VERSION {
        all.push(format!("INSERT INTO {{db}}.schema_version (version, time) VALUES ({VERSION}, now())"));
    }
    all.into_iter().map(|sql| sql.replace("{db}", database)).collect()
}

/// Returns the query of `doorbell history availability`: the endpoints of one month, as one JSON
/// object per line. `month` has the form `202611`.
#[must_use]
pub fn availability(database: &str, month: u32) -> String {
    format!(
        "SELECT endpoint, uniqExact(instance) AS instances, sum(up_ms) / 1000 AS up_s, sum(degraded_ms) / 1000 AS degraded_s, \
         sum(down_ms) / 1000 AS down_s, sum(drain_ms + maintenance_ms) / 1000 AS planned_s \
         FROM (SELECT DISTINCT * FROM {database}.minutes WHERE toYYYYMM(minute) = {month}) \
         GROUP BY endpoint ORDER BY endpoint FORMAT JSONEachRow"
    )
}

/// Whether a name is a valid database name.
#[must_use]
pub fn is_database(name: &str) -> bool {
    let is_start = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    name.len() <= 64
        && name.bytes().next().is_some_and(is_start)
        && name.bytes().all(|byte| is_start(byte) || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_by_version() {
        let (first, again) = (statements("d", 0), statements("d", VERSION));
        assert_eq!(first[0], "CREATE DATABASE IF NOT EXISTS d");
        let insert =
            usize::from(first.last().is_some_and(|sql| sql.starts_with("INSERT INTO d.schema_version")));
        let before = STEPS[0].len() + STEPS[1].len();
        assert_eq!(first.len(), before + again.len() + insert, "the version is inserted once");
        for (version, steps) in [(1, STEPS[1].len()), (2, 0)] {
            let upgrade = statements("d", version);
            assert_eq!(upgrade.len(), steps + again.len() + insert, "no earlier step is repeated");
        }
        assert!(first.iter().all(|sql| !sql.contains("{db}")));
        assert_eq!(insert, 1);
        let repeatable = |sql: &String| {
            ["IF NOT EXISTS", "IF EXISTS", "CREATE VIEW"].iter().any(|word| sql.contains(word))
        };
        assert!(again.iter().all(repeatable), "{again:?}");
        // Current releases refuse subqueries of a join without a name.
        assert!(first.iter().all(|sql| !sql.contains(") ALL INNER JOIN") && !sql.contains(") USING")));
    }

    #[test]
    fn names_of_databases() {
        for (name, is_good) in
            [("doorbell", true), ("_a1", true), ("", false), ("1a", false), ("a-b", false), ("a;b", false)]
        {
            assert_eq!(is_database(name), is_good, "{name}");
        }
    }
}
