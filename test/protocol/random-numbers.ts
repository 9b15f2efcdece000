/** Function that returns a number from 0 to below `limit`. */
export type Draw = (limit: number) => number

/** Creates a generator (xorshift32) whose numbers are the same in every run. */
export function numbersFrom(seed: number): Draw {
  let state = seed | 1
  return (limit) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % limit
  }
}
