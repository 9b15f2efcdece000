import { afterEach, beforeEach, describe, expect, it } from '@jest/globals'
import { request } from 'node:http'
import { closeServices, servingPort } from '../../support/servers/server-client.js'
import { fillVault, testVault, VaultUser, type TestVault } from '../../support/servers/vault-app.js'

const ENTRIES = 10_000
const CROWD = 50

let vault: TestVault
let user: VaultUser
let port: number
const contents = Array.from({ length: ENTRIES }, (_, number) => `entry ${number}`)

beforeEach(async () => {
  vault = await testVault()
  user = await VaultUser.new(vault)
  port = await servingPort(vault.listener, 1_024)
  await fillVault(vault, user.did, [
    ...contents.map((content): [string, string] => ['many', content]),
    ['one', 'small']
  ])
})
afterEach(async () => {
  closeServices()
  await vault.close()
})

interface Answer {
  status: number
  retryAfter: string | undefined
  text: string
}

/** Opens a request on a separate connection. */
function openRequest(path: string): { leave: () => void; answer: Promise<Answer> } {
  const req = request({ port, host: '127.0.0.1', path, agent: false })
  const answer = new Promise<Answer>((resolve, reject) => {
    req.on('error', reject)
    req.on('response', (res) => {
      let text = ''
      res.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
      res
        .on('error', reject)
        .on('end', () => resolve({ status: res.statusCode ?? 0, retryAfter: res.headers['retry-after'], text }))
    })
  })
  req.end()
  return { leave: () => req.destroy(), answer }
}

describe('50 clients that read a key of 10,000 entries at once', () => {
  it('are answered or told to retry, while other requests are answered', async () => {
    const otherUser = await VaultUser.new(vault)
    let remaining = CROWD
    const crowd = Array.from({ length: CROWD }, () =>
      openRequest(`/${user.did}/many`).answer.finally(() => (remaining -= 1))
    )
    // At least one round runs while the crowd reads.
    do {
      expect((await openRequest('/health').answer).status).toBe(200)
      expect(await openRequest(`/${user.did}/one`).answer).toMatchObject({ status: 200, text: '["small"]' })
      await otherUser.get('keys').expect(200, { keys: [] })
      await otherUser.get('backup').expect(200)
    } while (remaining > 0)
    const expected = JSON.stringify(contents)
    const answers = await Promise.all(crowd)
    const completeAnswers = answers.filter(({ status }) => status === 200)
    expect(completeAnswers.every(({ text }) => text === expected)).toBe(true)
    expect(completeAnswers.length).toBeGreaterThan(0)
    for (const { status, retryAfter } of answers) {
      if (status !== 200) expect([status, retryAfter]).toEqual([503, '5'])
    }
    process.stdout.write(
      `${completeAnswers.length} of ${CROWD} clients received the list, the others 503 with Retry-After\n`
    )
    expect(vault.log().filter(({ level, code }) => level === 'error' && code !== 'ERR_BUSY')).toEqual([])
  })

  it('cause no error when they disconnect, and the next reader is answered', async () => {
    const crowd = Array.from({ length: CROWD }, () => openRequest(`/${user.did}/many`))
    const outcomes = Promise.allSettled(crowd.map(({ answer }) => answer))
    expect((await openRequest('/health').answer).status).toBe(200)
    for (const { leave } of crowd) leave()
    await outcomes
    expect((await openRequest(`/${user.did}/many`).answer).text).toBe(JSON.stringify(contents))
    expect(vault.log().filter(({ level }) => level === 'error')).toEqual([])
  })
})
