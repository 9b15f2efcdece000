import { describe, expect, it } from '@jest/globals'
import type { Server } from 'node:http'
import request from 'supertest'
import { logIn, signedLogin, type TestTokens } from '../support/app-client.js'
import { rounds } from '../support/time-factor.js'
import { testApp, type TestApp } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)

async function serving(test: TestApp, use: (server: Server) => Promise<void>): Promise<void> {
  const server = test.app.listen(0)
  try {
    await use(server)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

describe('requests at the same time', () => {
  it('with one refresh token have exactly one winner, whose tokens work', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: Infinity })
    await serving(test, async (server) => {
      for (let round = 0; round < rounds(2, 200); round += 1) {
        const { refreshToken } = await logIn(test.app, wallet)
        const answers = await Promise.all(
          Array.from({ length: 50 }, async () => request(server).post('/refresh-token').send({ refreshToken }))
        )
        const [winner, ...others] = answers.filter(({ status }) => status === 200)
        expect(others).toEqual([])
        expect(new Set(answers.filter((answer) => answer !== winner).map(({ status }) => status))).toEqual(
          new Set([401])
        )
        const next = winner!.body as TestTokens
        await request(server).get('/me').set('Authorization', `DIDAuth ${next.accessToken}`).expect(200)
        await request(server).post('/refresh-token').send({ refreshToken: next.refreshToken }).expect(200)
      }
    })
  })

  it('to refresh and to log out leave no token that refreshes after the logout was answered', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: Infinity })
    await serving(test, async (server) => {
      for (let round = 0; round < rounds(20, 1_000); round += 1) {
        const { accessToken, refreshToken } = await logIn(test.app, wallet)
        const refresh = async (token: string) => request(server).post('/refresh-token').send({ refreshToken: token })
        const logOut = async () => request(server).post('/logout').set('Authorization', `DIDAuth ${accessToken}`)
        const first = round % 2 === 0 ? [refresh(refreshToken), logOut()] : [logOut(), refresh(refreshToken)]
        const refreshed = (await Promise.all(first))[round % 2]!
        const last = refreshed.status === 200 ? (refreshed.body as TestTokens).refreshToken : refreshToken
        expect((await refresh(last)).status).toBe(401)
      }
    })
  })

  it('with one sign up signature open one session, at sign up and login together', async () => {
    const test = await testApp({ maxRequestsPerTimeSlot: Infinity })
    await serving(test, async (server) => {
      for (let round = 1; round <= rounds(1, 100); round += 1) {
        const login = await signedLogin(test.app, walletOf(round))
        const answers = await Promise.all(
          Array.from({ length: 50 }, async (_, index) =>
            request(server)
              .post(index % 2 === 0 ? '/auth' : '/signup')
              .send(login)
          )
        )
        expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
        expect(await test.requireDid.sessions.list(walletOf(round).did)).toHaveLength(1)
      }
    })
  })
})
