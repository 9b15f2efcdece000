const ACCOUNT_ID = /^eip155:([1-9]\d{0,14}):(0x[0-9a-f]{40})$/

/** The account that signed an EIP-4361 message, on the chain that the message names. */
export interface Account {
  /** Lower case, with `0x`. */
  address: string
  chainId: number
}

/** The claim `acct` of an account. @see CAIP-10 */
export function accountIdOf({ address, chainId }: Account): string {
  return `eip155:${String(chainId)}:${address}`
}

/** The account of a claim `acct`; undefined where a login had none. */
export function parseAccountId(claim: unknown): Account | undefined {
  const [, chainId, address] = typeof claim === 'string' ? (ACCOUNT_ID.exec(claim) ?? []) : []
  return chainId === undefined || address === undefined ? undefined : { address, chainId: Number(chainId) }
}
