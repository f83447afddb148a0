use std::sync::Arc;

use arrow_array::{Int64Array, TimestampMicrosecondArray};

use super::*;

/// Python's `random.Random(seed)`, as far as `randrange` needs it: the golden values come from there.
struct PythonRandom {
    state: [u32; 624],
    next: usize,
}

impl PythonRandom {
    fn new(seed: u32) -> Self {
        let mut state = [0u32; 624];
        state[0] = 19_650_218;
        for i in 1..624 {
            state[i] = 1_812_433_253u32.wrapping_mul(state[i - 1] ^ (state[i - 1] >> 30)).wrapping_add(i as u32);
        }
        let mut i = 1;
        for _ in 0..624 {
            state[i] = (state[i] ^ (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_664_525)).wrapping_add(seed);
            i += 1;
            if i == 624 {
                state[0] = state[623];
                i = 1;
            }
        }
        for _ in 0..623 {
            state[i] =
                (state[i] ^ (state[i - 1] ^ (state[i - 1] >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i == 624 {
                state[0] = state[623];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        PythonRandom { state, next: 624 }
    }

    fn word(&mut self) -> u32 {
        if self.next == 624 {
            for i in 0..624 {
                let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % 624] & 0x7fff_ffff);
                let odd = if y & 1 == 1 { 0x9908_b0df } else { 0 };
                self.state[i] = self.state[(i + 397) % 624] ^ (y >> 1) ^ odd;
            }
            self.next = 0;
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    fn below(&mut self, bound: u32) -> i64 {
        let bits = 32 - bound.leading_zeros();
        loop {
            let drawn = self.word() >> (32 - bits);
            if drawn < bound {
                return i64::from(drawn);
            }
        }
    }
}

fn orders(seed: u32, events: i64) -> RecordBatch {
    const STATUSES: [&str; 5] = ["created", "paid", "packed", "shipped", "delivered"];
    let mut random = PythonRandom::new(seed);
    let span = events.clamp(1, 10_000) as u32;
    let mut drawn = Vec::new();
    for _ in 0..events {
        drawn.push((1 + random.below(span), STATUSES[random.below(5) as usize], 100 + random.below(250_000)));
    }
    let ids = Int64Array::from_iter_values(1..=events);
    let start = 1_767_225_600_000_000;
    RecordBatch::try_from_iter([
        ("order_id", Arc::new(ids.clone()) as ArrayRef),
        ("business_key", Arc::new(StringArray::from_iter_values((1..=events).map(|id| format!("order-{id:012}"))))),
        ("event_id", Arc::new(ids)),
        ("customer_id", Arc::new(Int64Array::from_iter_values(drawn.iter().map(|row| row.0)))),
        ("status", Arc::new(StringArray::from_iter_values(drawn.iter().map(|row| row.1)))),
        ("amount_cents", Arc::new(Int64Array::from_iter_values(drawn.iter().map(|row| row.2)))),
        (
            "updated_at",
            Arc::new(TimestampMicrosecondArray::from_iter_values((1..=events).map(|id| start + id * 1_000_000))),
        ),
        ("seed", Arc::new(Int64Array::from_iter_values((0..events).map(|_| i64::from(seed))))),
    ])
    .unwrap()
}

fn digest(batches: &[RecordBatch]) -> String {
    let mut digest = OrdersDigest::default();
    batches.iter().for_each(|batch| digest.add(batch).unwrap());
    digest.finish()
}

#[test]
fn published_digests_come_out() {
    assert_eq!(digest(&[orders(17, 1_000)]), "5780efc5f0fb50058cfb68e2501a52c2f6a01e6e1f7cc96e3cff301507629d88");
    assert_eq!(digest(&[orders(301, 120)]), "ab3a445b8ee03611bfee31fd3b1984822d9b355b6592385bf2922061206eaa22");
    assert_eq!(digest(&[orders(401, 100_000)]), "3eb5097b201c4cc0cc4ce817ff40746df5665acfeb1c30e60645bea0f757dcb9");
}

#[test]
fn the_order_of_batches_changes_nothing() {
    let whole = orders(17, 100);
    assert_eq!(digest(&[whole.slice(60, 40), whole.slice(0, 60)]), digest(&[whole]));
}

#[test]
fn strings_are_escaped_as_python_does() {
    let mut json = String::new();
    push_string(&mut json, "a\"\\\n\u{1}é😀\u{7f}");
    assert_eq!(json, "\"a\\\"\\\\\\n\\u0001\\u00e9\\ud83d\\ude00\u{7f}\"");
}

#[test]
fn a_table_without_its_columns_is_refused() {
    let batch = RecordBatch::try_from_iter([("order_id", Arc::new(Int64Array::from(vec![1])) as ArrayRef)]).unwrap();
    let error = OrdersDigest::default().add(&batch).unwrap_err();
    assert_eq!(error.to_string(), "not a table of orders: it lacks column `amount_cents`");
}
