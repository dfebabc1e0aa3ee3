//! The reply to a kubelet while an endpoint is degraded: a redirect that the kubelet does not
//! follow, with the reason as body.
//!
//! The kubelet does not follow a redirect to another host. It counts such a redirect as a success
//! and reports the body in an event of type `Warning` (`ProbeWarning`: "Probe terminated redirects,
//! Response body: ..").

use doorbell_health::{Audience, Board, Check, CheckIndex, EndpointIndex};
use doorbell_http::{StaticReply, Status};

/// Target of the redirect. The top-level domain `.invalid` is reserved (RFC 2606,
/// section 2), so the target is never the probed host.
const ELSEWHERE: &str = "http://degraded.invalid/";

/// Length reserved for the number of degraded checks that do not fit.
const REMARK_LEN_MAX: usize = "; 65535 more".len();

/// Renders the reply, with the reasons if `shown`. `None` if a header field is invalid.
pub(super) fn warning(
    board: &Board,
    endpoint: EndpointIndex,
    shown: bool,
    headers: &[(String, String)],
) -> Option<StaticReply> {
    let text = text(board, endpoint, shown)?;
    // A configured `Location` is left out, because a reply has only one.
    let others = headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("location"));
    let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = [("Content-Type", "text/plain; charset=utf-8"), ("Location", ELSEWHERE)];
    StaticReply::whole(Status::FOUND, fields.into_iter().chain(others), text).ok()
}

/// The text of the event, on one line: the endpoint, its state and the checks that decided the
/// state.
fn text(board: &Board, index: EndpointIndex, shown: bool) -> Option<String> {
    let endpoint = board.endpoint(index)?;
    let (verdict, _) = endpoint.answer(Audience::Kubelet);
    let mut text = format!("{} is {}", endpoint.config().name, verdict.state.as_str());
    if !shown {
        return Some(text);
    }
    let len_max = endpoint.config().body_len_max - REMARK_LEN_MAX;
    let note = endpoint.note(verdict);
    let mut deciding = endpoint.deciding(verdict).map(|one| one.check);
    let mut next =
        if note.is_empty() { deciding.next().map(|check| part(board, check)) } else { Some(note.to_owned()) };
    let mut separator = ": ";
    while let Some(piece) = next {
        if text.len() + separator.len() + piece.len() > len_max {
            // Thousands of checks may be degraded: those that do not fit are only counted.
            text.push_str(&format!("; {} more", 1 + deciding.count()));
            break;
        }
        text.push_str(separator);
        text.push_str(&piece);
        separator = "; ";
        next = deciding.next().map(|check| part(board, check));
    }
    Some(text.replace(char::is_control, "?"))
}

/// The name, state and reason of one check.
pub(crate) fn part(board: &Board, check: CheckIndex) -> String {
    let state = board.check(check).map_or("", |check| check.state().as_str());
    let name = board.check_name(check).unwrap_or_default();
    match board.check(check).map_or("", Check::reason) {
        "" => format!("{name} {state}"),
        reason => format!("{name} {state} ({reason})"),
    }
}
