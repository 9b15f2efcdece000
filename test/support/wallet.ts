import { keccak256, toUtf8Bytes, Wallet } from 'ethers'

/** A user's wallet: keys and signatures by ethers, so that no test checks this package's code with itself. */
export interface TestWallet {
  /** `did:ethr:rsk:` and the address in lower case. */
  did: string
  /** EIP-55 spelling. */
  address: string
  privateKey: string
  personalSign(message: string): string
}

/** The wallet of a number: the same in every run. */
export function createNumberedWallet(number: number): TestWallet {
  const wallet = new Wallet(`0x${number.toString(16).padStart(64, '0')}`)
  return {
    did: `did:ethr:rsk:${wallet.address.toLowerCase()}`,
    address: wallet.address,
    privateKey: wallet.privateKey,
    personalSign: (message) => wallet.signMessageSync(message)
  }
}

/** A wallet as a caller would write one, that notes what it signs, and does something before it does. */
export function createWatchedWallet(
  { address, personalSign }: TestWallet,
  before: (text: string) => unknown = () => undefined
) {
  const signed: string[] = []
  const signMessage = async (text: string): Promise<string> => {
    signed.push(text)
    await before(text)
    return personalSign(text)
  }
  return { address, signMessage, signed }
}

/** Returns the text that a wallet shows at login, written out here to be independent of the code under test. */
export function createLoginText(domain: string, challenge: string): string {
  return `Login to ${domain}\nVerification code: ${challenge}`
}

/**
 * An address in the spelling that a wallet of a chain shows.
 *
 * @param chainId - undefined: EIP-55, without a chain; 30 and 31: Rootstock
 * @see EIP-55, EIP-1191: a letter is upper case where the hash of the (prefixed) address has a digit of 8 or more
 */
export function checksumAddress(address: string, chainId?: number): string {
  const digits = address.toLowerCase().slice(2)
  const prefix = chainId === undefined ? '' : `${String(chainId)}0x`
  const hash = keccak256(toUtf8Bytes(prefix + digits)).slice(2)
  return `0x${digits.replace(/./g, (digit, at: number) => (parseInt(hash.charAt(at), 16) >= 8 ? digit.toUpperCase() : digit))}`
}
