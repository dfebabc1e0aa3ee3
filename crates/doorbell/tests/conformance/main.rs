//! Tests of the driver contract, rule by rule, on every driver.
//!
//! `doorbell::driver` states the rules D-1 to D-21. Each test checks one of them and runs as
//! `conformance::DRIVER::RULE`.
//!
//! If io_uring is not available, its drivers are skipped with the reason, unless
//! `DOORBELL_REQUIRE_URING=1`.
#![expect(clippy::disallowed_methods, reason = "the tests of real drivers measure real time")]

/// Instantiates all tests for each driver: `$make` returns a bench with the given number of slots,
/// or `None` if the driver is not available.
macro_rules! suite {
    ($($driver:ident => $make:expr;)*) => {$(
        mod $driver {
            suite! { @tests $make;
                accept: d1_arming_twice_reports_each_connection_once, d1_slots_in_use_are_not_given_again,
                    d1_two_listeners_are_distinguished, d2_disarm_ends_accept_once_and_nothing_follows,
                    d2_disarm_without_arm_is_silent, d2_accepted_connections_survive_the_disarm,
                    a_backlog_is_seen_and_a_closed_listener_refuses, a_downgraded_accept_still_accepts,
                    a_connection_that_left_the_backlog_is_still_reported, the_peers_address_is_known_or_none;
                crowd: a_long_backlog_is_emptied, all_connections_of_a_crowd_are_reported;
                transfer: d3_recv_and_send_may_be_in_flight_together, d3_a_second_recv_panics,
                    d3_a_second_send_panics, d4_a_recv_reports_once_however_much_comes,
                    d4_cancelled_recv_reports_once, d4_cancelled_send_reports_once_with_its_buffer,
                    d4_cancel_without_operations_reports_nothing, d5_a_short_send_reports_its_length_and_returns_the_buffer,
                    d8_bytes_stay_readable_until_recycled, received_bytes_are_exact_in_any_split,
                    drained_is_never_claimed_too_early,
                    d12_unsent_bytes_decrease_when_the_peer_reads, d21_input_that_was_not_received_is_seen,
                    d21_input_that_a_receive_has_taken_is_not_denied, the_end_of_the_stream_follows_the_data, a_reset_fails_the_recv, a_send_to_a_gone_peer_fails;
                ending: d6_a_closed_slot_is_used_again_and_the_peer_sees_the_end, d6_many_slots_are_closed_and_used_again, d6_a_half_close_does_not_reach_the_next_connection_in_the_slot,
                    d7_reply_and_fin_share_a_segment, d9_wait_ends_after_its_timeout, d9_wait_ends_by_the_requested_time, d9_wait_ends_when_woken,
                    d9_a_wake_before_the_wait_is_not_lost, d9_wait_ends_with_a_completion,
                    d10_reset_on_close_is_seen_as_a_reset, a_half_closed_connection_still_receives,
                    an_idle_connection_does_not_delay_another;
                datagrams: d14_arming_twice_reports_each_datagram_once, d14_a_datagram_has_both_addresses,
                    d14_a_long_datagram_is_truncated, d14_two_sockets_are_distinguished,
                    d15_disarm_ends_once_and_datagrams_stay_queued, d15_disarm_without_arm_is_silent,
                    d16_a_flood_comes_in_batches_and_delays_no_connection,
                    d18_replies_leave_from_the_address_that_was_asked, d18_a_reply_that_cannot_be_sent_is_counted,
                    d19_a_close_counts_what_was_queued, a_downgraded_socket_still_receives;
                leaving: d11_a_detached_connection_works_in_both_directions, d11_unreceived_bytes_are_not_lost,
                    d11_sent_bytes_arrive_before_the_next_owners_bytes,
                    d11_a_slot_is_used_again_and_its_connection_stays_apart, d12_a_query_of_unsent_bytes_keeps_no_connection_open,
                    d20_a_released_connection_continues_where_it_is_adopted,
                    d20_a_send_of_an_adopted_connection_waits_for_its_peer;
            }
        }
    )*};
    (@tests $make:expr; $($rules:ident: $($rule:ident),*;)*) => {$($(
        #[test]
        fn $rule() {
            if let Some(stand) = $make(crate::$rules::SLOTS) {
                crate::$rules::$rule(stand);
            }
        }
    )*)*};
}

mod accept;
mod bench;
mod crowd;
mod datagrams;
mod ending;
mod leaving;
mod real;
mod shared;
mod simulated;
mod transfer;

mod conformance {
    suite! {
        epoll => crate::real::epoll;
        io_uring => crate::real::uring_ordinary;
        epoll_quick => crate::real::epoll_quick;
        io_uring_direct => crate::real::uring_direct;
        io_uring_plain => crate::real::uring_plain;
        io_uring_polled => crate::real::uring_polled;
        io_uring_quick => crate::real::uring_quick;
        simulated_at_once => crate::simulated::at_once;
        simulated_later => crate::simulated::later;
    }
}
