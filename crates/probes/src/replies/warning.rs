//! The reply to a kubelet while an endpoint is degraded: a redirect that it does not follow, with
//! the reason as body.
//!
//! Does not know about: requests.
//!
//! The prober of the kubelet goes to no other host: it takes such a redirect as a success, and the
//! body becomes the text of an event of type `Warning` (`ProbeWarning`: "Probe terminated
//! redirects, Response body: ..").

use doorbell_health::{Audience, Board, Check, CheckIndex, EndpointIndex};
use doorbell_http::{StaticReply, Status};

/// No host has this name (RFC 2606 2), so it is never the probed one.
const ELSEWHERE: &str = "http://degraded.invalid/";

/// Room for the remark that more checks are degraded.
const REMARK_LEN_MAX: usize = "; 65535 more".len();

/// The reply, with the reasons if they are `shown`. `None` if a header field cannot be sent.
pub(super) fn warning(
    board: &Board,
    endpoint: EndpointIndex,
    shown: bool,
    headers: &[(String, String)],
) -> Option<StaticReply> {
    let text = text(board, endpoint, shown)?;
    // A reply has one `Location`.
    let others = headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("location"));
    let others = others.map(|(name, value)| (name.as_str(), value.as_str()));
    let fields = [("Content-Type", "text/plain; charset=utf-8"), ("Location", ELSEWHERE)];
    StaticReply::whole(Status::FOUND, fields.into_iter().chain(others), text).ok()
}

/// One line, as events are shown: the endpoint, its state and the checks that decided it.
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
            // Thousands may be degraded: those that do not fit are counted.
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

/// One check, its state and reason.
fn part(board: &Board, check: CheckIndex) -> String {
    let state = board.check(check).map_or("", |check| check.state().as_str());
    let name = board.check_name(check).unwrap_or_default();
    match board.check(check).map_or("", Check::reason) {
        "" => format!("{name} {state}"),
        reason => format!("{name} {state} ({reason})"),
    }
}
