//! Orders: inserts into one table, drawn as the `exactly-once-drills` generator draws them.
//!
//! The draws come from one random sequence, so they are made once and kept (12 bytes an order); the rest of a row follows from its number.
//! The range of customers depends on the number of events below 10,000, so a shorter log than that is not the beginning of a longer one.
//! Doesn't know: updates, deletes, late or poison records, `base_time_ms` (order i happened i seconds after 2026-01-01).
//! Keeps: key = the Confluent Avro bytes of {order_id} under schema id 1, value = compact JSON of the 8 columns.
//! Tested: orders/tests.rs (published digests and partition counts).
use std::io::Write;

use chrono::DateTime;

use super::dials::{BASE_TIME_MS, Dials, WorkloadError};
use super::partitioner::{Placement, partition_of};
use super::python_random::PythonRandom;
use super::{Fate, Record, Workload};

/// Digests that were published (see digest/orders.rs), by seed and number of events.
pub const PUBLISHED: [(u64, u64, &str); 3] = [
    (17, 1_000, "5780efc5f0fb50058cfb68e2501a52c2f6a01e6e1f7cc96e3cff301507629d88"),
    (301, 120, "ab3a445b8ee03611bfee31fd3b1984822d9b355b6592385bf2922061206eaa22"),
    (401, 100_000, "3eb5097b201c4cc0cc4ce817ff40746df5665acfeb1c30e60645bea0f757dcb9"),
];

const STATUSES: [&str; 5] = ["created", "paid", "packed", "shipped", "delivered"];
const AMOUNTS: u32 = 250_000;
const LEAST_AMOUNT_CENTS: u32 = 100;
const MOST_CUSTOMERS: u64 = 10_000;
const KEY_SCHEMA_ID: u32 = 1;

pub struct Orders {
    seed: u64,
    partitions: u32,
    draws: Vec<Draw>,
    placement: Placement,
}

struct Draw {
    customer_id: u32,
    status: u8,
    amount_cents: u32,
}

impl Orders {
    pub fn new(dials: &Dials) -> Result<Self, WorkloadError> {
        dials.check_partitions()?;
        dials.check_countable()?;
        let mut random = PythonRandom::seeded(dials.seed);
        let customers = dials.events.clamp(1, MOST_CUSTOMERS) as u32;
        let draws = (0..dials.events)
            .map(|_| Draw {
                customer_id: 1 + random.range_below(customers),
                status: random.range_below(STATUSES.len() as u32) as u8,
                amount_cents: LEAST_AMOUNT_CENTS + random.range_below(AMOUNTS),
            })
            .collect();
        Ok(Orders { seed: dials.seed, partitions: dials.partitions, draws, placement: Placement::default() })
    }
}

/// Confluent's wire format: a zero byte, the schema id, then the Avro record, which is one zigzag varint.
fn write_key(order_id: u64, key: &mut Vec<u8>) {
    key.clear();
    key.push(0);
    key.extend_from_slice(&KEY_SCHEMA_ID.to_be_bytes());
    let mut rest = order_id << 1;
    while rest >= 0x80 {
        key.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    key.push(rest as u8);
}

fn happened_ms(order_id: u64) -> i64 {
    BASE_TIME_MS + order_id as i64 * 1_000
}

impl Workload for Orders {
    fn records(&self) -> u64 {
        self.draws.len() as u64
    }

    fn partition_of(&self, index: u64) -> u32 {
        let mut key = Vec::with_capacity(16);
        write_key(index + 1, &mut key);
        partition_of(&key, self.partitions)
    }

    fn index_of(&self, partition: u32, offset: u64) -> Option<u64> {
        let all = (0..self.records()).map(|index| self.partition_of(index));
        self.placement.index_of(partition, offset, self.partitions, all)
    }

    fn fate(&self, _index: u64) -> Fate {
        Fate::OnTime
    }

    fn record(&self, index: u64, out: &mut Record) {
        let order_id = index + 1;
        let draw = &self.draws[index as usize];
        write_key(order_id, &mut out.key);
        out.partition = partition_of(&out.key, self.partitions);
        out.timestamp_ms = happened_ms(order_id);
        let updated_at = DateTime::from_timestamp_millis(out.timestamp_ms).unwrap_or_default();
        out.value.clear();
        // Writing to a Vec can't fail.
        let _ = write!(
            out.value,
            r#"{{"order_id":{order_id},"business_key":"order-{order_id:012}","event_id":{order_id},"customer_id":{customer},"status":"{status}","amount_cents":{amount},"updated_at":"{updated_at}","seed":{seed}}}"#,
            customer = draw.customer_id,
            status = STATUSES[usize::from(draw.status)],
            amount = draw.amount_cents,
            updated_at = updated_at.format("%Y-%m-%d %H:%M:%S%.3f"),
            seed = self.seed,
        );
    }
}

#[cfg(test)]
mod tests;
