//! How often somebody may fail to show who they are.
//!
//! Promises: bounded, however many addresses there are. Leaves out: keeping out a token that is good,
//! since behind a proxy all clients have one address.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Failures of one address that are answered as such before it has to wait.
const BURST: u32 = 20;
/// After this time one more is.
const EACH: Duration = Duration::from_secs(1);
/// Addresses that are counted at one time.
const ADDRESSES: usize = 4096;

/// Counts failures.
#[derive(Default)]
pub(super) struct Throttle(Mutex<HashMap<IpAddr, Instant>>);

impl Throttle {
    /// Counts a failure; how long to wait, where there were too many.
    pub(super) fn failed(&self, peer: IpAddr) -> Option<Duration> {
        self.failed_at(peer, Instant::now())
    }

    /// Each address has the moment at which all of its failures are forgiven.
    fn failed_at(&self, peer: IpAddr, now: Instant) -> Option<Duration> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= ADDRESSES && !all.contains_key(&peer) {
            all.retain(|_, forgiven| *forgiven > now);
            if all.len() >= ADDRESSES {
                return Some(EACH);
            }
        }
        let forgiven = all.entry(peer).or_insert(now);
        let next = (*forgiven).max(now) + EACH;
        let over = next.saturating_duration_since(now + EACH * BURST);
        if over.is_zero() {
            *forgiven = next;
            return None;
        }
        Some(over)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn one_address_waits_and_others_do_not() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        let peer = |last| IpAddr::from(Ipv4Addr::new(192, 0, 2, last));
        for _ in 0..BURST {
            assert_eq!(throttle.failed_at(peer(1), start), None);
        }
        assert_eq!(throttle.failed_at(peer(1), start), Some(EACH));
        assert_eq!(throttle.failed_at(peer(2), start), None);
        assert_eq!(throttle.failed_at(peer(1), start + EACH), None);
        assert!(throttle.failed_at(peer(1), start + EACH).is_some());
    }

    #[test]
    fn there_is_room_for_so_many() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        for number in 0..ADDRESSES {
            let peer = IpAddr::from(u32::try_from(number).unwrap().to_be_bytes());
            assert_eq!(throttle.failed_at(peer, start), None);
        }
        let one_more = IpAddr::from([203, 0, 113, 1]);
        assert_eq!(throttle.failed_at(one_more, start), Some(EACH));
        assert_eq!(throttle.failed_at(one_more, start + EACH * 2), None);
        assert_eq!(throttle.0.lock().unwrap().len(), 1);
    }
}
