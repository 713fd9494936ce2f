//! Requests of a guest: who takes them at a time, and how their answers go back.

use bridge_broker::{GuestError, Outcome, Run};
use bridge_wire::{Link, RpcResponse, TO_GUEST_LIMIT};

/// Bytes that may wait for the guest to read them. Beyond that, answers stay with the broker, which
/// then works on no more requests than are unanswered.
pub(crate) const ANSWERS_LIMIT: usize = 1 << 20;

/// Refuses requests outside of a run.
pub(crate) const IDLE: Requests<'static> = Requests::Refused("no run is active");
/// Refuses requests after the interrupt.
pub(crate) const STOPPING: Requests<'static> = Requests::Refused("the run is being stopped");

/// Who takes requests of the guest.
#[derive(Clone, Copy)]
pub(crate) enum Requests<'a> {
    /// The broker takes them for this run.
    Taken(&'a Run),
    /// Nobody does, for this reason.
    Refused(&'static str),
}

/// Refuses a request. A guest that asks without reading gets no more answers.
pub(crate) fn refuse(link: &mut Link, call: u64, class: &str, message: &str) {
    if link.sender.unsent() < ANSWERS_LIMIT {
        // A frame of this size is always taken.
        let refusal = RpcResponse::refusal(call, class, message);
        let _ = link.sender.queue_bounded(&refusal);
    }
}

/// Puts an answer behind the frames that wait. An answer that is too large becomes an error.
pub(crate) fn answer(link: &mut Link, outcome: &Outcome) {
    let call = outcome.call;
    let result = outcome.result.as_ref().map_err(GuestError::to_wire);
    if let Err(size) = link.sender.queue_bounded(&RpcResponse { call, result }) {
        let message =
            format!("the result has {size} bytes; at most {TO_GUEST_LIMIT} can be passed on");
        let refusal = RpcResponse::refusal(call, "MCPError", &message);
        let _ = link.sender.queue_bounded(&refusal);
    }
}
