/** Numbers from 0 to below `limit`, the same in every run: xorshift32. */
export type Draw = (limit: number) => number

export function numbersFrom(seed: number): Draw {
  let state = seed | 1
  return (limit) => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % limit
  }
}
