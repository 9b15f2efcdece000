/**
 * Child process of the benchmark: so many logins a second, or as much against bare routes, until it is killed:
 * `bench-load.ts <port> <challenge path> <tokens path> <first wallet> <per second>`
 */
import { benchWallet } from './bench-wallet.js'
import { ConnectionPool } from './http-client.js'
import { openLoad } from './open-load.js'

const [port, challengePath, tokensPath, firstWallet, perSecond] = process.argv.slice(2)
const pool = new ConnectionPool(Number(port))

await openLoad(Number(perSecond), Infinity, (index) =>
  pool.use(async (connection) => {
    const wallet = benchWallet(Number(firstWallet) + index)
    const { body } = await connection.post(challengePath!, { did: wallet.did })
    const { challenge } = JSON.parse(body) as { challenge: string }
    const sig = wallet.personalSign(`Login to bench.example\nVerification code: ${challenge}`)
    const { status, body: answered } = await connection.post(tokensPath!, { did: wallet.did, sig })
    if (status !== 200 && !answered.endsWith(': expired')) throw new Error(`login answered ${status}`)
  })
)
