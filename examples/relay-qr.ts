/** Sends a secret through a relay, shows its QR code in the terminal, and opens it as the recipient does. */
import { Wallet } from 'ethers'
import { qrText } from 'express-did-auth-client/qr'
import { RelayClient } from 'express-did-auth-client/relay'

const url = process.env.RELAY_URL ?? 'http://localhost:3001'
/** Your page, which passes `location.href` to `relay.open`. */
const page = 'https://app.example/open'

const ada = new RelayClient({ url, wallet: Wallet.createRandom() })
const uri = await ada.send('The treasure lies under the old oak')
const link = ada.link(uri, page)
console.log(qrText(link))
console.log(link)

const bob = new RelayClient({ url, wallet: Wallet.createRandom() })
console.log('Bob reads:', await bob.open(link))
