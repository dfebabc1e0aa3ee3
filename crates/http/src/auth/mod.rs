//! Authorization by bearer tokens, static or signed: the decision whether a request is allowed.
//!
//! [`Tokens`] is a set of secrets that are compared in constant time, without allocation. With the
//! feature `jwt`, a `JwtPolicy` verifies signed tokens (RFC 7519). A [`Policy`] combines both and
//! decides whether a request is allowed and, if not, which status and challenge it gets (RFC 6750
//! 3).
//!
//! ```
//! use doorbell_http::auth::{Authorization, Decision, Policy, Tokens};
//!
//! let mut tokens = Tokens::new();
//! tokens.add("prometheus", b"XJ7bXg1cV3yq8s0LQm5v2w").unwrap();
//! let policy = Policy::bearer("status", tokens).unwrap();
//!
//! let decision = policy.decide(Authorization::One(b"Bearer XJ7bXg1cV3yq8s0LQm5v2w"), 1_700_000_000);
//! assert!(matches!(decision, Decision::Allowed(principal) if principal.name() == "prometheus"));
//!
//! let decision = policy.decide(Authorization::Absent, 1_700_000_000);
//! assert_eq!(decision.status().unwrap().code(), 401);
//! assert_eq!(policy.challenge(&decision), Some("Bearer realm=\"status\""));
//! ```

mod authorization;
mod bearer;
#[cfg(feature = "jwt")]
pub mod jwt;
mod policy;

pub use authorization::Authorization;
pub use bearer::{
    SECRET_LEN_ADVISED, SECRET_LEN_MAX, SECRET_LEN_MIN, TOKENS_MAX, TokenError, TokenWarning, Tokens,
};
pub use policy::{Decision, Policy, PolicyError, Principal, Reason};
