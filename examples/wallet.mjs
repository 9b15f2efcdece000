// A wallet for trying things out. Without argument it prints its DID, with a message its signature (personal_sign).
import { Wallet } from 'ethers'

const wallet = new Wallet(process.env.WALLET_KEY ?? `0x${'01'.repeat(32)}`)
const message = process.argv[2]
console.log(message ? await wallet.signMessage(message) : `did:ethr:rsk:${wallet.address.toLowerCase()}`)
