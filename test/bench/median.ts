/** The value that a share of all values lies below: 0.5 for the median, 0.99 for what is called p99. */
export function quantile(values: readonly number[], share: number): number {
  return [...values].sort((a, b) => a - b)[Math.floor(values.length * share)]!
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5)
}
