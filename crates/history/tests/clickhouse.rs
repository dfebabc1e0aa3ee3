//! Tests the store against a real ClickHouse server.

use doorbell_history::clickhouse::{ClickHouse, LinkQueries, Server, schema};
use doorbell_history::{
    CheckResult, CounterName, FrameId, History, Increments, Kind, Minute, Operation, Options, Receipt, Row,
    Store as _, Transition, Writer,
};
use doorbell_testkit::peers::clickhouse::{ClickHouse as Peer, USER};
use doorbell_testkit::peers::wait_until;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);
const OPTIONS: Options = Options { interval: Duration::from_millis(50), timeout: Duration::from_secs(20) };

/// 2026-11-20 00:00:00 UTC.
const DAY: u64 = 1_795_132_800;

fn store(peer: &Peer) -> ClickHouse {
    let server = Server {
        host: peer.addr.ip().to_string(),
        port: peer.addr.port(),
        user: USER.0.to_owned(),
        password: USER.1.to_owned(),
        ..Server::default()
    };
    ClickHouse { server, database: "doorbell".into(), instance: "web-1".into(), run: 7 }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

fn result(check: &str, second: u64, outcome: &'static str, latency_us: u32) -> Row {
    let (check, at_ms, reason) = (check.into(), (DAY + second) * 1000 + 7, "connection refused\n'é".into());
    // Failures are of an instance that stores one in three results.
    let weight = if outcome == "failure" { 3 } else { 1 };
    Row::Result(CheckResult { at_ms, check, outcome, latency_us, weight, reason })
}

fn transition(second: u64, from: &'static str, to: &'static str) -> Row {
    Row::Transition(Transition {
        at_ms: (DAY + second) * 1000 + 999,
        subject: "check",
        name: "db".into(),
        from,
        to,
        cause: "",
        reason: "timeout".into(),
    })
}

fn minute(minute: u64, ms: [u32; 5]) -> Row {
    Row::Minute(Minute { minute: DAY / 60 + minute, endpoint: "readyz".into(), ms })
}

/// Writes rows and waits until they are written.
fn write(store: &ClickHouse, rows: impl IntoIterator<Item = Row>) {
    let history = Arc::new(History::new(16 << 20, 1_000));
    rows.into_iter().for_each(|row| history.push(row));
    let writer =
        Writer::start(Arc::clone(&history), store.clone(), OPTIONS, || Duration::from_secs(DAY), Vec::new);
    let writer = writer.expect("a thread");
    assert!(wait_until(LIMIT, || history.rows_live() == 0).is_some(), "{:?}", history.stats());
    writer.stop();
    assert_eq!(history.stats().sum(|counts| counts.dropped()), 0);
}

#[test]
fn the_schema_is_created_once_and_upgraded_by_newer_programs_only() {
    let Some(peer) = Peer::start() else { return };
    let store = store(&peer);
    let error = block_on(store.check()).unwrap_err().to_string();
    assert_eq!(error, "database doorbell has no schema: run `doorbell history init`");
    assert_eq!(block_on(store.init()), Ok(0));
    assert_eq!(block_on(store.check()), Ok(()));
    write(&store, [transition(0, "up", "down")]);
    assert_eq!(block_on(store.init()), Ok(schema::VERSION));
    assert_eq!(peer.query("SELECT version FROM doorbell.schema_version"), [schema::VERSION.to_string()]);
    assert_eq!(peer.query("SELECT count() FROM doorbell.transitions"), ["1"], "rows are kept");

    let older = ClickHouse { database: "older".into(), ..store.clone() };
    for sql in [
        "CREATE DATABASE older",
        "CREATE TABLE older.schema_version (version UInt32, time DateTime) ENGINE = MergeTree() ORDER BY version",
        "INSERT INTO older.schema_version VALUES (1, now())",
    ] {
        block_on(store.query(sql)).unwrap();
    }
    let error = block_on(older.check()).unwrap_err().to_string();
    assert!(
        error.contains("has version 1, this program writes version 3: run `doorbell history init`"),
        "{error}"
    );

    block_on(store.query("INSERT INTO doorbell.schema_version VALUES (99, now())")).unwrap();
    for error in [block_on(store.init()).unwrap_err(), block_on(store.check()).unwrap_err()] {
        assert!(
            error
                .to_string()
                .starts_with("the schema has version 99, this program supports versions up to 3: "),
            "{error}"
        );
    }
    let mut stranger = store;
    stranger.server.password = "wrong".to_owned();
    let error = block_on(stranger.check()).unwrap_err().to_string();
    assert!(error.contains("Code: 193") || error.contains("Code: 516"), "{error}");
    assert!(!error.contains("wrong"), "{error}");
}

#[test]
fn rows_are_read_back_as_they_were_written() {
    let Some(peer) = Peer::start() else { return };
    let store = store(&peer);
    block_on(store.init()).unwrap();
    let drain = Operation {
        at_ms: DAY * 1000,
        what: "drain",
        target: "readyz".into(),
        is_on: true,
        source: "",
        reason: "deploy".into(),
        until_ms: Some((DAY + 60) * 1000),
    };
    let changes = [("up", "down"), ("down", "up"), ("up", "down"), ("down", "up")];
    let transitions = (0..).zip(changes).map(|(second, (from, to))| transition(second, from, to));
    let results = [("cache", 1, "success", 1_000), ("db", 2, "failure", 9_000), ("db", 3, "success", 5_000)];
    let rows = results.map(|(check, second, outcome, latency)| result(check, second, outcome, latency));
    let minutes = [minute(0, [30_000, 15_000, 15_000, 0, 0]), minute(1, [0, 0, 0, 40_000, 20_000])];
    write(&store, transitions.chain(rows).chain(minutes.clone()).chain([Row::Operation(drain)]));
    let rows = |table: &str| peer.query(&format!("SELECT * FROM doorbell.{table}"));
    assert_eq!(rows("transitions")[0], "2026-11-20 00:00:00\t999\tweb-1\tcheck\tdb\tup\tdown\t\ttimeout");
    assert_eq!(
        rows("operations"),
        ["2026-11-20 00:00:00\t0\tweb-1\tdrain\treadyz\t1\t\tdeploy\t2026-11-20 00:01:00"]
    );
    assert_eq!(
        rows("results")[0],
        "2026-11-20 00:00:01\t7\tweb-1\tcache\tsuccess\t1000\t1\tconnection refused\\n\\'é"
    );
    let first = "2026-11-20 00:00:00\tweb-1\t7\treadyz\t30000\t15000\t15000\t0\t0";
    assert_eq!(rows("minutes")[0], first);
    // A repeated row has no effect on the views.
    write(&store, minutes.into_iter().chain([result("db", 2, "failure", 9_000)]));
    assert_eq!(rows("availability"), ["2026-11-01\treadyz\t1\t30\t15\t15\t60\t0.75"]);
    assert_eq!(rows("flapping"), ["2026-11-20\tdb\tweb-1\t4\t2"]);
    let slowest = rows("slowest");
    assert!(
        slowest[0].starts_with("2026-11-20\tdb\t4\t3\t9\t") && slowest[0].ends_with("\t9"),
        "{slowest:?}"
    );
    let month = block_on(store.query(&schema::availability("doorbell", 202_611))).unwrap();
    let line = "{\"endpoint\":\"readyz\",\"instances\":\"1\",\"up_s\":30,\"degraded_s\":15,\"down_s\":15,\"planned_s\":60}\n";
    assert_eq!(month.replace(":1,", ":\"1\","), line);
    assert_eq!(block_on(store.query(&schema::availability("doorbell", 202_610))).unwrap(), "");
}

fn increments(minute: u64, name: CounterName, counts: [u32; 5]) -> Row {
    Row::Increments(Increments { minute: DAY / 60 + minute, name, counts })
}

fn receipt(number: u64, second: u64, size: u32, round_trip_us: u32, weight: u32) -> Row {
    Row::Receipt(Receipt {
        at_ms: (DAY + second) * 1000 + 5,
        link: "eu".into(),
        frame: FrameId { incarnation: u64::MAX, connection: 2, number },
        size,
        round_trip_us,
        one_way_us: [round_trip_us / 4, round_trip_us / 2],
        weight,
    })
}

#[test]
fn losses_and_latency_of_links_and_probers_that_disagree() {
    let Some(peer) = Peer::start() else { return };
    let store = store(&peer);
    block_on(store.init()).unwrap();
    let link = |minute, counts| increments(minute, CounterName::Link("eu".into()), counts);
    let prober = |minute, prober, counts| {
        increments(minute, CounterName::Prober { endpoint: "readyz".into(), prober }, counts)
    };
    let losses = [link(0, [600, 2, 1, 0, 0]), link(1, [400, 0, 0, 0, 0])];
    let probes = [
        prober(0, "kubelet", [6, 0, 0, 0, 0]),
        prober(0, "haproxy", [0, 0, 30, 0, 0]),
        prober(1, "kubelet", [6, 0, 0, 0, 0]),
        prober(1, "haproxy", [28, 0, 2, 0, 0]),
    ];
    // After the 90th receipt, `sample` changes from 1 to 10.
    let weight = |number| if number > 90 { 10 } else { 1 };
    let receipts = (1..=100).map(|number| {
        receipt(u64::from(number), u64::from(number), 10 * number, 1_000 * number, weight(number))
    });
    let rows: Vec<Row> = losses.into_iter().chain(probes).chain(receipts).collect();
    write(&store, rows.clone());
    // Repeated rows have no effect.
    write(&store, rows);
    let table = |table: &str| peer.query(&format!("SELECT * FROM doorbell.{table}"));
    assert_eq!(table("link_minutes")[0], "2026-11-20 00:00:00\tweb-1\t7\teu\t600\t2\t1");
    assert_eq!(table("prober_minutes")[0], "2026-11-20 00:00:00\tweb-1\t7\treadyz\thaproxy\t0\t0\t30\t0\t0");
    let first = "2026-11-20 00:00:01\t5\tweb-1\teu\t18446744073709551615\t2\t1\t10\t1000\t250\t500\t1";
    assert_eq!(table("link_receipts")[0], first);
    assert_eq!(table("link_loss"), ["2026-11-20\teu\tweb-1\t1000\t2\t1\t0.002"]);
    let disagreeing = [
        "2026-11-20 00:00:00\tweb-1\treadyz\thaproxy\t0\t30\t6\t6",
        "2026-11-20 00:00:00\tweb-1\treadyz\tkubelet\t6\t6\t0\t30",
    ];
    assert_eq!(table("disagreeing"), disagreeing, "in the second minute almost all agree");

    let start = u32::try_from(DAY).unwrap();
    let ask = |queries: &LinkQueries<'_>| {
        [queries.loss(), queries.latency(), queries.course(60)]
            .map(|query| block_on(store.query(&query)).unwrap().replace('"', ""))
    };
    let queries = LinkQueries { database: "doorbell", time: start..start + 3_600 };
    let [loss, latency, course] = ask(&queries);
    assert_eq!(loss, "{instance:web-1,link:eu,frames:1000,frames_lost:2,frames_dropped:1}\n");
    assert!(
        latency.contains("link:eu,receipts:190,p50:91000,p90:99000,p99:100000,slowest:100000,"),
        "{latency}"
    );
    assert!(latency.contains("one_way_p50:34125,"), "{latency}");
    assert!(latency.trim_end().ends_with("size_correlation:1}"), "{latency}");
    assert!(course.contains(&format!("at:{start},")) && course.lines().count() == 2, "{course}");
    let queries = LinkQueries { time: start + 60..start + 61, ..queries };
    assert!(ask(&queries)[0].contains("frames:400,"), "the end is not included");
    let queries = LinkQueries { time: 0..start, ..queries };
    assert_eq!(ask(&queries), ["", "", ""]);
}

/// Frames of a burst are sent in the same millisecond, and often have equal sizes and latencies.
#[test]
fn repeated_receipts_count_once_and_equal_receipts_of_a_burst_each() {
    let Some(peer) = Peer::start() else { return };
    let store = store(&peer);
    block_on(store.init()).unwrap();
    let burst = (1..=90).map(|number| receipt(number, 1, 66, 1_000, 1));
    let rows: Vec<Row> = burst.chain((91..=100).map(|number| receipt(number, 2, 66, 90_000, 1))).collect();
    write(&store, rows.clone());
    // The responses to two inserts of the slow receipts were lost.
    for _ in 0..2 {
        write(&store, rows[90..].to_vec());
    }
    let start = u32::try_from(DAY).unwrap();
    let queries = LinkQueries { database: "doorbell", time: start..start + 60 };
    let latency = block_on(store.query(&queries.latency())).unwrap().replace('"', "");
    assert!(latency.contains("receipts:100,p50:1000,p90:1000,"), "{latency}");
    let course = block_on(store.query(&queries.course(60))).unwrap().replace('"', "");
    assert!(course.contains("p50:1000,p90:1000,"), "{course}");
    let queries = LinkQueries { time: start..start + 2, ..queries };
    let latency = block_on(store.query(&queries.latency())).unwrap().replace('"', "");
    assert!(latency.contains("receipts:90,p50:1000,"), "{latency}");
}

/// The statements of version 2 as they were.
#[test]
fn a_schema_of_version_2_is_upgraded() {
    let Some(peer) = Peer::start() else { return };
    let store = store(&peer);
    let now = schema::statements("doorbell", 0);
    let is_of_2 = |sql: &&String| !sql.contains("link_receipts") && !sql.contains("INSERT INTO");
    now.iter().filter(is_of_2).for_each(|sql| drop(block_on(store.query(sql)).unwrap()));
    for sql in [
        "CREATE TABLE doorbell.receipts (time DateTime('UTC'), millis UInt16, instance String, link String, \
         size UInt32, round_trip_us UInt32, one_way_min_us UInt32, one_way_max_us UInt32, weight UInt32) \
         ENGINE = MergeTree() PARTITION BY toYYYYMM(time) ORDER BY (link, instance, time)",
        "INSERT INTO doorbell.receipts VALUES ('2026-11-20 00:00:00', 5, 'web-1', 'eu', 66, 900, 1, 899, 1)",
        "INSERT INTO doorbell.schema_version (version, time) VALUES (2, now())",
    ] {
        block_on(store.query(sql)).unwrap();
    }
    let error = block_on(store.check()).unwrap_err().to_string();
    assert!(error.contains("has version 2, this program writes version 3"), "{error}");
    assert_eq!(block_on(store.init()), Ok(2));
    write(&store, [receipt(1, 1, 66, 900, 1)]);
    let count = |table: &str| peer.query(&format!("SELECT count() FROM doorbell.{table}"));
    assert_eq!((count("link_receipts"), count("receipts")), (vec!["1".into()], vec!["1".into()]));
    assert_eq!(block_on(store.init()), Ok(3));
}

/// Kills the server twice while rows arrive. A batch whose response was lost is written again, so a
/// row may be stored twice. No row is missing, and all counts are exact.
#[test]
fn a_killed_server_gets_every_row_at_least_once() {
    let Some(mut peer) = Peer::start() else { return };
    let store = store(&peer);
    block_on(store.init()).unwrap();
    let history = Arc::new(History::new(64 << 20, 500));
    let writer =
        Writer::start(Arc::clone(&history), store, OPTIONS, || Duration::from_secs(DAY), Vec::new).unwrap();
    let mut number = 0;
    let mut push = |count: u64| {
        for _ in 0..count {
            number += 1;
            history.push(result("db", number / 1_000, "success", u32::try_from(number).unwrap()));
        }
    };
    for _ in 0..2 {
        push(5_000);
        let failed = history.stats().batches_failed;
        assert!(wait_until(LIMIT, || history.stats().sum(|counts| counts.written) > 0).is_some());
        peer.kill();
        push(5_000);
        assert!(wait_until(LIMIT, || history.stats().batches_failed > failed).is_some());
        peer.restart();
    }
    assert!(wait_until(LIMIT, || history.rows_live() == 0).is_some(), "{:?}", history.stats());
    writer.stop();
    let counts = history.stats().rows[Kind::Result as usize];
    assert_eq!((counts.added, counts.written, counts.dropped()), (20_000, 20_000, 0));
    let found = peer.query("SELECT uniqExact(latency_us), max(latency_us), count() FROM doorbell.results");
    let found: Vec<u64> = found[0].split('\t').map(|number| number.parse().unwrap()).collect();
    // A row was accepted before the kill if its batch was complete; ClickHouse 18.16 does not
    // flush to the disk before it replies, but the kernel keeps what a killed process has written.
    assert_eq!((found[0], found[1]), (20_000, 20_000));
    let repeated = found[2] - 20_000;
    assert!(repeated <= 2 * 500, "at most the batch in progress of each kill: {repeated}");
}
