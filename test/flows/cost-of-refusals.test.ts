import { describe, expect, it } from '@jest/globals'
import { createCredentialJwt, signUp } from '../support/fixtures/credentials.js'
import { testApp } from '../support/servers/test-app.js'
import { createNumberedWallet } from '../support/fixtures/fixtures.js'

const issuer = createNumberedWallet(6101)

describe('POST /signup with valid credentials', () =>
  it('charges each tried key as a refused proof: after 100 the network is refused', async () => {
    const { app, requireDid } = await testApp({ maxRequestsPerTimeSlot: 1, signupBusinessLogic: () => undefined })
    const answers: number[] = []
    for (let number = 1; number <= 6; number += 1) {
      const wallet = createNumberedWallet(6200 + number)
      const credentials = Array.from({ length: 20 }, (_, at) =>
        createCredentialJwt(issuer, wallet.did, { jti: String(at) })
      )
      answers.push((await signUp(app, wallet, { credentials })).status)
    }
    expect(answers).toEqual([200, 200, 200, 200, 200, 429])
    await requireDid.close()
  }))
