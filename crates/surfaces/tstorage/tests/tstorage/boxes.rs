//! Random boxes against a model: a list of records that is looked through.

use proptest::test_runner::{RngAlgorithm, TestRng};
use rand_like::Dice;

use crate::client::{Client, Key, MAX, MIN, Record, get_request, record};
use crate::server::World;

/// Numbers from proptest's generator.
mod rand_like {
    use super::TestRng;
    use proptest::prelude::Rng;

    pub(super) struct Dice(pub(super) TestRng);

    impl Dice {
        /// A number of this range.
        pub(super) fn below(&mut self, end: u64) -> u64 {
            self.0.next_u64() % end
        }

        pub(super) fn between(&mut self, (first, end): (i64, i64)) -> i64 {
            first + i64::try_from(self.below(u64::try_from(end - first).unwrap())).unwrap()
        }
    }
}

/// How far each component goes, so that boxes meet records.
const SPANS: [(i64, i64); 5] = [(0, 6), (-3, 4), (-2, 3), (-20, 20), (0, 12)];

/// Boxes asked; `NILOMETER_BOXES` sets another number.
const BOXES: usize = 20_000;

/// Requests on their way at one time.
const AT_ONCE: usize = 200;

fn key(dice: &mut Dice) -> Key {
    let [cid, mid, moid, cap, acq] = SPANS.map(|span| dice.between(span));
    let narrow = |wide: i64| i32::try_from(wide).unwrap();
    (narrow(cid), mid, narrow(moid), cap, acq)
}

fn a_box(dice: &mut Dice) -> (Key, Key) {
    let (one, other) = (key(dice), key(dice));
    // At least one long in each component, and sometimes without an end.
    let side = |one: i64, other: i64| (one.min(other), one.max(other) + 1);
    let narrow =
        |(first, end): (i64, i64)| (i32::try_from(first).unwrap(), i32::try_from(end).unwrap());
    let (cid, moid) = (
        side(one.0.into(), other.0.into()),
        side(one.2.into(), other.2.into()),
    );
    let (cid, moid) = (narrow(cid), narrow(moid));
    let (mid, cap, acq) = (
        side(one.1, other.1),
        side(one.3, other.3),
        side(one.4, other.4),
    );
    let mut min = (cid.0, mid.0, moid.0, cap.0, acq.0);
    let mut max = (cid.1, mid.1, moid.1, cap.1, acq.1);
    for component in 0..5 {
        if dice.below(3) == 0 {
            match component {
                0 => (min.0, max.0) = (MIN.0, MAX.0),
                1 => (min.1, max.1) = (MIN.1, MAX.1),
                2 => (min.2, max.2) = (MIN.2, MAX.2),
                3 => (min.3, max.3) = (MIN.3, MAX.3),
                _ => (min.4, max.4) = (MIN.4, MAX.4),
            }
        }
    }
    (min, max)
}

fn is_in(key: Key, min: Key, max: Key) -> bool {
    (min.0..max.0).contains(&key.0)
        && (min.1..max.1).contains(&key.1)
        && (min.2..max.2).contains(&key.2)
        && (min.3..max.3).contains(&key.3)
        && (min.4..max.4).contains(&key.4)
}

fn check(client: &mut Client, model: &[Record], boxes: &[(Key, Key)], seed: &[u8; 16]) {
    for boxes in boxes.chunks(AT_ONCE) {
        let requests: Vec<u8> = boxes
            .iter()
            .flat_map(|(min, max)| get_request(*min, *max))
            .collect();
        client.send(&requests);
        for (min, max) in boxes {
            let read = client.read_get().ok().0;
            let expected = model.iter().filter(|it| is_in(it.key, *min, *max));
            if !read.iter().eq(expected.clone()) {
                let expected: Vec<&Record> = expected.collect();
                panic!("{read:?} is not {expected:?}: {min:?} {max:?} seed {seed:?}");
            }
        }
    }
}

#[test]
fn every_box_has_the_records_of_the_model() {
    let boxes = std::env::var("NILOMETER_BOXES").ok();
    let boxes = boxes.map_or(BOXES, |boxes| boxes.parse().unwrap());
    let seed = *b"boxes and record";
    let mut dice = Dice(TestRng::from_seed(RngAlgorithm::XorShift, &seed));
    let world = World::default();
    let mut server = world.start();
    let mut client = server.connect();
    let mut model = Vec::new();
    for round in 0..4 {
        let records: Vec<Record> = (0..500)
            .map(|_| {
                let payload = vec![1; usize::try_from(dice.below(20)).unwrap()];
                record(key(&mut dice), payload)
            })
            .collect();
        client.puta(&records).ok();
        model.extend(records);
        model.sort();
        match round {
            // Rows in memory, in memory beside files, and in files of an earlier start.
            1 => server.engine.flush().unwrap(),
            2 => {
                drop(server);
                server = world.start();
                client = server.connect();
            }
            _ => {}
        }
        let asked: Vec<(Key, Key)> = (0..boxes / 4).map(|_| a_box(&mut dice)).collect();
        check(&mut client, &model, &asked, &seed);
    }
}
