import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signedIn, wallet } from 'express-did-auth/testing'
import { createApp } from './app.js'

test('returns the profile of a user who is logged in, and refuses other visitors', async () => {
  const alice = wallet('alice')
  const fetchAsAlice = await signedIn(createApp(), alice)
  const answer = await fetchAsAlice('/api/profile')
  assert.deepEqual(await answer.json(), { did: alice.did })
  const refused = await fetch(`${fetchAsAlice.url}/api/profile`)
  assert.equal(refused.status, 401)
})
