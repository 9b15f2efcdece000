import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { alice, startClientService, type ClientService } from '../support/client-service.js'
import { credentialJwt } from '../support/credentials.js'
import { START_SECONDS } from '../support/test-app.js'
import { walletOf } from '../support/wallet.js'

let service: ClientService

beforeEach(async () => {
  service = await startClientService()
})

afterEach(async () => {
  await service.close()
})

describe('DidAuthClient.signUp', () => {
  const issuer = walletOf(5)
  const emailCredential = credentialJwt(issuer, alice.did, {
    nbf: START_SECONDS - 10,
    exp: START_SECONDS + 10_000,
    vc: {
      '@context': ['https://www.w3.org/2018/credentials/v1'],
      type: ['VerifiableCredential', 'EmailCredential'],
      credentialSubject: { email: 'alice@example.org' }
    }
  })
  const claims = [{ claimType: 'name', claimValue: 'Ällice' }]
  const asking = async (): Promise<unknown[]> => {
    const received: unknown[] = []
    await service.close()
    service = await startClientService({
      requiredCredentials: ['EmailCredential'],
      requiredClaims: [{ claimType: 'name', claimValue: '', essential: true, reason: 'Grüße' }],
      trustedIssuers: [issuer.did],
      signupBusinessLogic: ({ credentials, claims }) => {
        received.push(credentials.length, claims)
        if (credentials.length === 0) throw new Error('An e-mail credential please')
      }
    })
    return received
  }

  it('is a login where the service asks for nothing', async () => {
    const auth = service.client()
    expect(await auth.signUp()).toMatchObject({ did: alice.did })
    expect(service.paths()).toEqual(['/request-signup', '/signup'])
  })

  it('shows what the service asks for, and answers what the caller picks', async () => {
    const received = await asking()
    const auth = service.client()
    let shown: unknown
    await auth.signUp({
      onDisclosure: (request) => {
        shown = request
        return { credentials: [emailCredential], claims }
      }
    })
    expect(shown).toMatchObject({
      issuer: expect.stringMatching(/^did:ethr:/),
      credentials: ['EmailCredential'],
      claims: [{ claimType: 'name', essential: true, reason: 'Grüße' }],
      jwt: expect.stringMatching(/^ey/)
    })
    expect(received).toEqual([1, claims])
    expect(auth.session?.did).toBe(alice.did)
  })

  it('takes credentials and claims as they are given, here or to the client', async () => {
    const received = await asking()
    await service.client().signUp({ credentials: [emailCredential], claims })
    await service.client({ signUp: { credentials: [emailCredential], claims } }).signUp()
    expect(received).toEqual([1, claims, 1, claims])
  })

  it('throws the words of the business logic', async () => {
    await asking()
    const error = await service
      .client()
      .signUp()
      .catch((thrown: unknown) => thrown)
    expect(error).toMatchObject({ code: 'REFUSED', userMessage: 'An e-mail credential please' })
  })
})
