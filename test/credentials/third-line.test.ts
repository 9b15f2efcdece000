import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { testApp, type TestApp } from '../support/test-app.js'
import { credentialJwt, signUp } from '../support/credentials.js'
import { walletOf } from '../support/wallet.js'

const user = walletOf(1)
const issuer = walletOf(8001)
const jwt = credentialJwt(issuer, user.did)
const second = credentialJwt(issuer, user.did, { jti: '2' })

let app: TestApp

beforeEach(async () => {
  app = await testApp()
})

afterEach(async () => {
  await app.requireDid.close()
})

async function answerTo(thirdLine: string, credentials?: string[]): Promise<[number, string]> {
  const { status, text } = await signUp(app.app, user, { thirdLine, credentials })
  return [status, status === 200 ? '' : text]
}

const accepted = [200, '']
const refused = [401, 'Invalid challenge response']

describe('the message signed at sign up without credentials', () => {
  it.each([
    ['no third line', ''],
    ['an empty third line', '\n'],
    ['the prefix', '\nMy credentials are:'],
    ['the prefix and a blank', '\nMy credentials are: ']
  ])('may have %s', async (_name, thirdLine) => {
    expect(await answerTo(thirdLine)).toEqual(accepted)
    expect(await answerTo(thirdLine, [])).toEqual(accepted)
  })

  it.each([
    ['two blanks after the prefix', '\nMy credentials are:  '],
    ['a line feed after the prefix', '\nMy credentials are: \n'],
    ['two empty lines', '\n\n'],
    ['a carriage return', '\r\n'],
    ['a blank at the end', ' '],
    ['the prefix in lower case', '\nmy credentials are: '],
    ['a comma', '\nMy credentials are: ,'],
    ['a credential that is not sent', `\nMy credentials are: ${jwt}`]
  ])('must not have %s', async (_name, thirdLine) => {
    expect(await answerTo(thirdLine)).toEqual(refused)
  })
})

describe('the message signed at sign up with credentials', () => {
  it('names one, or several joined by commas', async () => {
    expect(await answerTo(`\nMy credentials are: ${jwt}`, [jwt])).toEqual(accepted)
    expect(await answerTo(`\nMy credentials are: ${jwt},${second}`, [jwt, second])).toEqual(accepted)
  })

  it.each([
    ['no third line', ''],
    ['the prefix alone', '\nMy credentials are: '],
    ['only the first', `\nMy credentials are: ${jwt}`],
    ['another order', `\nMy credentials are: ${second},${jwt}`],
    ['a blank after the comma', `\nMy credentials are: ${jwt}, ${second}`],
    ['no blank after the prefix', `\nMy credentials are:${jwt},${second}`],
    ['a comma at the end', `\nMy credentials are: ${jwt},${second},`],
    ['a line feed at the end', `\nMy credentials are: ${jwt},${second}\n`]
  ])('must not have %s', async (_name, thirdLine) => {
    expect(await answerTo(thirdLine, [jwt, second])).toEqual(refused)
  })
})
