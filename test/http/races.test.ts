import { describe, expect, it } from '@jest/globals'
import type { Server } from 'node:http'
import request from 'supertest'
import { rounds, sampled } from '../support/fixtures/time-factor.js'
import { testApp, type TestApp } from '../support/servers/test-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

/** Plays rounds of requests to one listening server. */
async function playRounds(count: number, play: (test: TestApp, server: Server, round: number) => Promise<void>) {
  const test = await testApp({ maxRequestsPerTimeSlot: Infinity })
  const server = test.app.listen(0)
  try {
    for (let round = 1; round <= count; round += 1) await play(test, server, round)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}
const FIFTY = Array.from({ length: 50 }, (_, index) => index)

describe('concurrent requests', () => {
  it('have exactly one winner, whose tokens work, if they share a refresh token', () =>
    playRounds(rounds(sampled(1, 2), 200), async ({ logIn, me, refresh }, server) => {
      const { refreshToken } = await logIn()
      const send = async () => request(server).post('/refresh-token').send({ refreshToken })
      const answers = await Promise.all(FIFTY.map(send))
      const [winner, ...others] = answers.toSorted((one, other) => one.status - other.status)
      expect(others.map(({ status }) => status)).toEqual(Array(49).fill(401))
      await me(winner!.body.accessToken).expect(200)
      await refresh(winner!.body.refreshToken).expect(200)
    }))

  it('leave no token that refreshes after the response to a logout', () =>
    playRounds(rounds(sampled(4, 20), 1_000), async ({ logIn }, server, round) => {
      const { accessToken, refreshToken } = await logIn()
      const refresh = async (token: string) => request(server).post('/refresh-token').send({ refreshToken: token })
      const logOut = async () => request(server).post('/logout').set('Authorization', `DIDAuth ${accessToken}`)
      const first = round % 2 === 0 ? [refresh(refreshToken), logOut()] : [logOut(), refresh(refreshToken)]
      const refreshed = (await Promise.all(first))[round % 2]!
      const last = refreshed.status === 200 ? refreshed.body.refreshToken : refreshToken
      expect((await refresh(last)).status).toBe(401)
    }))

  it('open one session if they share a sign-up signature, at sign-up and login', () =>
    playRounds(rounds(1, 100), async ({ createSignedLogin, requireDid }, server, round) => {
      const wallet = createNumberedWallet(round)
      const login = await createSignedLogin(wallet)
      const paths = FIFTY.map((index) => (index % 2 === 0 ? '/auth' : '/signup'))
      const answers = await Promise.all(paths.map(async (path) => request(server).post(path).send(login)))
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
      expect(await requireDid.sessions.list(wallet.did)).toHaveLength(1)
    }))
})
