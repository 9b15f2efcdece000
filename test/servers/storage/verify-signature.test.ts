import { describe, expect, it } from '@jest/globals'
import { signatureFault, type SignedRequest } from '../../support/verify-signature.js'

// The examples of "Authenticating Requests: Using the Authorization Header" in the documentation of Amazon S3.
const account = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
  region: 'us-east-1'
}
const now = Date.UTC(2013, 4, 24)
const EMPTY = 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'

function example(
  method: string,
  target: string,
  signature: string,
  more: Readonly<Record<string, string>> = {},
  body = ''
): SignedRequest {
  const headers: Record<string, string> = {
    host: 'examplebucket.s3.amazonaws.com',
    'x-amz-content-sha256': EMPTY,
    'x-amz-date': '20130524T000000Z',
    ...more
  }
  const names = Object.keys(headers).sort().join(';')
  const credential = `${account.accessKeyId}/20130524/us-east-1/s3/aws4_request`
  const authorization = `AWS4-HMAC-SHA256 Credential=${credential},SignedHeaders=${names},Signature=${signature}`
  return { method, target, headers: { ...headers, authorization }, body: Buffer.from(body) }
}

const get = example('GET', '/test.txt', 'f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41', {
  range: 'bytes=0-9'
})
const put = example(
  'PUT',
  '/test%24file.text',
  '98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd',
  {
    date: 'Fri, 24 May 2013 00:00:00 GMT',
    'x-amz-content-sha256': '44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072',
    'x-amz-storage-class': 'REDUCED_REDUNDANCY'
  },
  'Welcome to Amazon S3.'
)
const list = example('GET', '/?max-keys=2&prefix=J', '34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7')
const bare = example('GET', '/?lifecycle', 'fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543')

describe('the signature that the tests’ storage asks for', () => {
  it.each([
    ['GET of an object', get],
    ['PUT of an object', put],
    ['a list', list],
    ['a query without values', bare]
  ])('is that of the documentation: %s', (_what, request) => {
    expect(signatureFault(request, account, now)).toBeUndefined()
  })

  it.each<[string, SignedRequest, number, string]>([
    ['another key of an object', { ...get, target: '/test.tx' }, now, 'SignatureDoesNotMatch'],
    ['another method', { ...get, method: 'DELETE' }, now, 'SignatureDoesNotMatch'],
    ['another query', { ...list, target: '/?max-keys=3&prefix=J' }, now, 'SignatureDoesNotMatch'],
    ['another header', { ...get, headers: { ...get.headers, range: 'bytes=0-' } }, now, 'SignatureDoesNotMatch'],
    ['another body', { ...put, body: Buffer.from('welcome') }, now, 'XAmzContentSHA256Mismatch'],
    [
      'a header of S3 that is not signed',
      { ...get, headers: { ...get.headers, 'x-amz-acl': 'public' } },
      now,
      'AccessDenied'
    ],
    ['no signature', { ...get, headers: {} }, now, 'AccessDenied'],
    ['a quarter of an hour later', get, now + 900_001, 'RequestTimeTooSkewed'],
    ['a quarter of an hour before', get, now - 900_001, 'RequestTimeTooSkewed']
  ])('refuses %s', (_what, request, time, code) => {
    expect(signatureFault(request, account, time)).toBe(code)
  })
})
