//! Replays the corpora of the fuzz targets.

#[path = "../fuzz/targets/chunked.rs"]
mod chunked;
#[path = "../fuzz/targets/conn.rs"]
mod conn;
#[path = "../fuzz/targets/differential.rs"]
mod differential;
#[path = "../fuzz/targets/head.rs"]
mod head;
#[path = "../fuzz/targets/proxy.rs"]
mod proxy;

use std::path::Path;

fn replay(target: &str, run: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut files = 0;
    for entry in std::fs::read_dir(&dir).expect("the corpus is committed") {
        let path = entry.expect("an entry").path();
        let data = std::fs::read(&path).expect("a file");
        files += 1;
        if std::panic::catch_unwind(|| run(&data)).is_err() {
            panic!("{} failed", path.display());
        }
    }
    assert!(files >= 20, "{files} files in {}", dir.display());
}

#[test]
fn head_corpus() {
    replay("head", head::run);
}

#[test]
fn chunked_corpus() {
    replay("chunked", chunked::run);
}

#[test]
fn conn_corpus() {
    replay("conn", conn::run);
}

#[test]
fn differential_corpus() {
    replay("differential", differential::run);
}

#[test]
fn proxy_corpus() {
    replay("proxy", proxy::run);
}
