//! Services behind a pointer: shared, boxed or borrowed, including trait objects.

use crate::{Client, MessageStart, Replied, Request, RequestError, Responder, Service, Time};
use std::sync::Arc;

/// Implements [`Service`] for pointers by forwarding every method.
macro_rules! forward {
    ($($pointer:ty),*) => {$(
        impl<S: Service + ?Sized> Service for $pointer {
            fn inner(&self) -> Option<&dyn Service> {
                (**self).inner()
            }

            fn wants_body(&self, head: &Request<'_>) -> bool {
                (**self).wants_body(head)
            }

            fn wants_client(&self) -> bool {
                (**self).wants_client()
            }

            fn takes_trace(&self) -> bool {
                (**self).takes_trace()
            }

            fn refused(&self, error: RequestError, client: &Client<'_>, now: Time) {
                (**self).refused(error, client, now);
            }

            fn hands_over(&self, start: MessageStart<'_>) -> bool {
                (**self).hands_over(start)
            }

            fn missing_param(&self, known: &[&str]) -> Option<&str> {
                (**self).missing_param(known)
            }

            #[inline]
            fn call<'a>(&self, request: &Request<'_>, reply: Responder<'a>) -> Replied<'a> {
                (**self).call(request, reply)
            }

            fn repeats(&self, request: &Request<'_>, count: u32) -> bool {
                (**self).repeats(request, count)
            }
        }
    )*};
}

forward!(&S, Arc<S>, Box<S>);
