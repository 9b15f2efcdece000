import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { getFile, logIn, postFile, startTestRelay, type TestRelay } from '../support/relay-app.js'
import { walletOf } from '../support/wallet.js'

const wallet = walletOf(1)
/** Of `hello world`, as every IPFS node says it. */
const HELLO_CID = 'bafkreifzjut3te2nhyekklss27nh3k72ysco7y32koao5eei66wof36n5e'

let relay: TestRelay
let token: string

beforeEach(async () => {
  relay = await startTestRelay()
  token = await logIn(relay, wallet)
})

afterEach(() => relay.end())

describe('POST /file', () => {
  it('answers the cid and the URL of a file, which can then be fetched', async () => {
    const posted = await postFile(relay, token, 'hello world')
    expect([posted.status, posted.body]).toEqual([200, { url: `relay://${HELLO_CID}`, cid: HELLO_CID }])
    const fetched = await getFile(relay, token, HELLO_CID)
    expect([fetched.status, fetched.text]).toEqual([200, '{"file":"hello world"}'])
    expect(fetched.headers['content-type']).toBe('application/json; charset=utf-8')
  })
})
