/** What a check of the vault's data found. */
export interface Finding {
  /** One line for the operator. */
  text: string
  /** How much was put right, or would have to be. */
  repairs: number
  /** How much cannot be put right, or not yet. */
  faults: number
}

/** `no pins`, `1 pin`, `1,000 pins`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count === 0 ? 'no' : count.toLocaleString('en')} ${count === 1 ? one : many}`
}
