// A minimal wallet. It prints its DID or, with a message as argument, the signature (personal_sign).
import { Wallet } from 'ethers'

const wallet = new Wallet(process.env.WALLET_KEY ?? `0x${'01'.repeat(32)}`)
const message = process.argv[2]
console.log(message ? await wallet.signMessage(message) : `did:ethr:rsk:${wallet.address.toLowerCase()}`)
