// A test of an app with login, five lines long, for node:test: `node --test login-test.mjs`.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { signedIn, wallet } from 'express-did-auth/testing'
import { makeApp } from './app.mjs'

test('returns the profile of a user who is logged in', async () => {
  const alice = wallet('alice')
  const fetch = await signedIn(await makeApp(), alice)
  const answer = await fetch('/profile')
  assert.deepEqual(await answer.json(), { did: alice.did })
})
