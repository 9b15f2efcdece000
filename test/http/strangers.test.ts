import { describe, expect, it } from '@jest/globals'
import { createServer } from 'node:http'
import request from 'supertest'
import { signedLogin } from '../support/app-client.js'
import { testApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

describe('300 bad proofs from one client network that name the DIDs of 20 users', () => {
  // Figure F19, small: no one is locked out. Cause: what was counted was the DID, which anybody can name.
  it('beside the logins of these users, at once, refuse none of them', async () => {
    const { app } = await testApp({}, { before: (host) => host.set('trust proxy', true) })
    const users = Array.from({ length: 20 }, (_, number) => walletOf(100 + number))
    const logins = await Promise.all(users.map((user) => signedLogin(app, user)))
    const sig = walletOf(1).personalSign('anything')
    const server = createServer(app)
    await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
    const send = async (body: object, address: string): Promise<number> =>
      (await request(server).post('/auth').set('X-Forwarded-For', address).send(body)).status
    const refused = Array.from({ length: 300 }, (_, number) => send({ did: users[number % 20]!.did, sig }, '192.0.2.1'))
    const answers = await Promise.all(logins.map((login, number) => send(login, `198.51.100.${String(number)}`)))
    expect(answers).toEqual(Array(20).fill(200))
    expect(await Promise.all(refused)).toEqual(Array(300).fill(401))
    server.closeAllConnections()
    server.close()
  })
})
