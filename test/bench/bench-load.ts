/** Child process of the benchmark: 16 clients that log in without a pause, or do as much against bare routes. */
import { benchWallet } from './bench-wallet.js'
import { Connection } from './http-client.js'

const [port, challengePath, tokensPath, firstWallet] = process.argv.slice(2)
let number = Number(firstWallet)

async function logInForEver(): Promise<void> {
  const connection = await Connection.open(Number(port))
  for (;;) {
    const wallet = benchWallet(number++)
    const { body } = await connection.post(challengePath!, { did: wallet.did })
    const { challenge } = JSON.parse(body) as { challenge: string }
    const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const { status, body: answered } = await connection.post(tokensPath!, { did: wallet.did, sig })
    if (status !== 200 && !answered.endsWith(': expired')) throw new Error(`login answered ${status}`)
  }
}

await Promise.all(Array.from({ length: 16 }, logInForEver))
