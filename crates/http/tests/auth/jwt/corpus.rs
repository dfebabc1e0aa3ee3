//! Replays the corpus of the fuzz target `auth`.

#[path = "../../../fuzz/targets/auth.rs"]
mod target;

use super::sign;
use std::path::Path;

#[test]
fn auth_corpus() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/auth");
    let mut files = 0;
    for entry in std::fs::read_dir(&dir).expect("the corpus is committed") {
        let path = entry.expect("an entry").path();
        let data = std::fs::read(&path).expect("a file");
        files += 1;
        if std::panic::catch_unwind(|| target::run(&data)).is_err() {
            panic!("{} failed", path.display());
        }
    }
    assert!(files >= 20, "{files} files in {}", dir.display());
}
