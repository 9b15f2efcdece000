import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { gzipSync } from 'node:zlib'
import { afterTest } from '../fixtures/after-test.js'
import { createCredentialJwt, createCredentialPayload, es256kBy, jwtByHand } from '../fixtures/credentials.js'
import type { TestWallet } from '../fixtures/fixtures.js'

/** Wallet that signs credentials or lists. */
type Signatory = Pick<TestWallet, 'did' | 'privateKey'>

/** Encodes bits as `encodedList` of a Bitstring Status List. By default, it has the minimum length. */
export function encodeBits(set: readonly number[], byteCount = 16_384): string {
  const bytes = Buffer.alloc(byteCount)
  for (const index of set) bytes[Math.floor(index / 8)]! |= 2 ** (7 - (index % 8))
  return `u${gzipSync(bytes).toString('base64url')}`
}

/** Values of a list that a test changes. A value that is undefined is absent from the JWT. */
export interface ListChanges {
  header?: object
  /** Claims next to `vc`. */
  claims?: object
  vc?: object
  subject?: object
}

/** Signs a Bitstring Status List for revocation, in which the bits of `set` are set. */
export function signStatusList(
  issuer: Signatory,
  set: readonly number[],
  { header, claims, vc, subject }: ListChanges = {}
): string {
  const credentialSubject = {
    type: 'BitstringStatusList',
    statusPurpose: 'revocation',
    encodedList: encodeBits(set),
    ...subject
  }
  const type = ['VerifiableCredential', 'BitstringStatusListCredential']
  const payload = { iss: issuer.did, vc: { type, credentialSubject, ...vc }, ...claims }
  return jwtByHand({ alg: 'ES256K', typ: 'JWT', ...header }, payload, es256kBy(issuer.privateKey))
}

/** Returns an entry of `credentialStatus`. */
export const createStatusEntry = (url: string, changes: object = {}) => ({
  type: 'BitstringStatusListEntry',
  statusPurpose: 'revocation',
  statusListIndex: '5',
  statusListCredential: url,
  ...changes
})

/** Signs a credential of a user with this `credentialStatus`. */
export function signCredentialWithStatus(issuer: Signatory, userDid: string, credentialStatus: unknown): string {
  const { vc } = createCredentialPayload(issuer.did, userDid)
  return createCredentialJwt(issuer, userDid, { vc: { ...vc, credentialStatus } })
}

/** Issuer that publishes a list on a port of this machine. */
export interface StatusListIssuer {
  /** URL of the list. Other paths of the origin are answered too. */
  url: string
  /** Paths of the requests so far. */
  asked: string[]
  /** Text of the answer, or the listener that answers. */
  answer: string | RequestListener
}

/** Starts an issuer. It ends with the test. */
export async function startStatusListIssuer(answer: StatusListIssuer['answer'] = ''): Promise<StatusListIssuer> {
  const server = createServer((req, res) => {
    issuer.asked.push(req.url ?? '')
    if (typeof issuer.answer === 'string') res.setHeader('Content-Type', 'text/html').end(issuer.answer)
    else issuer.answer(req, res)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  afterTest(() => {
    server.close()
    server.closeAllConnections()
  })
  const url = `http://127.0.0.1:${String((server.address() as AddressInfo).port)}/list`
  const issuer: StatusListIssuer = { url, asked: [], answer }
  return issuer
}
