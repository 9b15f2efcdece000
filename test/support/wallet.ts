import { Wallet } from 'ethers'

/** A user's wallet: keys and signatures by ethers, so that no test checks our code with our code. */
export interface TestWallet {
  /** `did:ethr:rsk:` and the address in lower case. */
  did: string
  /** EIP-55 spelling. */
  address: string
  privateKey: string
  personalSign(message: string): string
}

/** The wallet of a number: the same in every run. */
export function walletOf(number: number): TestWallet {
  const wallet = new Wallet(`0x${number.toString(16).padStart(64, '0')}`)
  return {
    did: `did:ethr:rsk:${wallet.address.toLowerCase()}`,
    address: wallet.address,
    privateKey: wallet.privateKey,
    personalSign: (message) => wallet.signMessageSync(message)
  }
}

/** What a wallet is shown at login, written out here and not taken from the code under test. */
export function loginText(domain: string, challenge: string): string {
  return `Login to ${domain}\nVerification code: ${challenge}`
}
