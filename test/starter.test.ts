import { afterEach, expect, it, jest } from '@jest/globals'
import { EventEmitter } from 'node:events'

const server = Object.assign(new EventEmitter(), { address: () => ({ port: 4000 }), close: () => undefined })
jest.unstable_mockModule('../examples/starter/app.js', () => ({ createApp: () => ({ listen: () => server }) }))
jest.unstable_mockModule('../examples/starter/store.js', () => ({ store: {} }))

const env = { ...process.env }
const signals = ['SIGINT', 'SIGTERM'] as const
const listeners = signals.flatMap((signal) => process.listeners(signal))
afterEach(() => {
  process.env = { ...env }
  for (const signal of signals) {
    for (const added of process.listeners(signal)) if (!listeners.includes(added)) process.off(signal, added)
  }
  server.removeAllListeners()
  jest.restoreAllMocks()
})

it.each([
  ['http://localhost:3000', 'http://localhost:4000'],
  ['http://127.0.0.1:3000', 'http://127.0.0.1:4000'],
  ['http://localhost:4000', undefined],
  ['http://127.0.0.1:4000', undefined],
  ['https://app.example.com', undefined]
])('the starter at port 4000 with SERVICE_URL=%s names the address to set: %s', async (url, expected) => {
  process.env.SERVICE_URL = url
  delete process.env.BEHIND_VITE
  const shown = jest.spyOn(console, 'log').mockImplementation(() => undefined)
  const warned = jest.spyOn(console, 'warn').mockImplementation(() => undefined)
  jest.resetModules()
  await import('../examples/starter/server.js')
  server.emit('listening')
  expect(shown.mock.calls).toEqual([[`Listening on port 4000. Open ${url}`]])
  expect(warned.mock.calls).toEqual(
    expected === undefined ? [] : [[`Logins at ${expected} are refused: set SERVICE_URL=${expected} in .env`]]
  )
})
