// The button that stops the moving pictures of the first page, and starts them.
document.addEventListener("DOMContentLoaded", () => {
  const pictures = document.querySelectorAll(".moving img");
  const place = document.querySelector(".labs");
  if (!place) return;
  const button = document.createElement("button");
  let moves = true;
  button.className = "still";
  button.textContent = "Stop the pictures";
  button.addEventListener("click", () => {
    moves = !moves;
    for (const picture of pictures) {
      picture.dataset.moving ??= picture.getAttribute("src");
      picture.src = moves ? picture.dataset.moving : picture.dataset.still;
    }
    button.textContent = moves ? "Stop the pictures" : "Start the pictures";
  });
  place.after(button);
});
