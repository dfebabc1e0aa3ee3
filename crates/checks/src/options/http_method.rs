//! The method of an `http` check.

use doorbell_config::{Entry, Json, Key, words_form};
use hyper::Method;

const METHODS: [(&str, Method); 8] = [
    ("DELETE", Method::DELETE),
    ("GET", Method::GET),
    ("HEAD", Method::HEAD),
    ("OPTIONS", Method::OPTIONS),
    ("PATCH", Method::PATCH),
    ("POST", Method::POST),
    ("PUT", Method::PUT),
    ("TRACE", Method::TRACE),
];

pub(super) fn read(entry: &Entry<'_>) -> Option<Method> {
    let positions: Vec<(&str, usize)> = METHODS.iter().zip(0..).map(|((word, _), at)| (*word, at)).collect();
    entry.word(&positions).map(|at| METHODS[at].1.clone())
}

pub(super) fn dump(method: &Method) -> Option<Json> {
    Some(method.as_str().into())
}

pub(super) fn form(_: &Key) -> Json {
    words_form(&METHODS)
}
